// Every row of the registry, with several parameters and placements of servers.
#pragma once

#include <map>

#include "training.h"

namespace lockstep::testing {

// As many co-located servers as there are workers.
inline constexpr int kEvery = -1;

// Who must say what of itself: a strategy that stops to fails the suite.
inline Claims claims_of(const std::string& spec) {
  const auto is_one_of = [&](const std::vector<std::string>& list) {
    return std::ranges::find(list, spec) != list.end();
  };
  const auto named = [&](const std::vector<std::string>& list) {
    return std::ranges::find(list, strategy_named(spec).name) != list.end();
  };
  Claims claims;
  claims.exact = is_one_of({"all-reduce", "all-reduce:average=weights", "parameter-server",
                            "local-sgd:period=1", "slow-mo:period=1,momentum=0",
                            "diloco:period=1,lr=1,momentum=0", "step-wise:full_pass=1",
                            "step-wise:form=token,full_pass=1"});
  claims.plain_alone =
      claims.exact || named({"local-sgd", "step-wise", "d-psgd"}) ||
      is_one_of({"slow-mo", "diloco"});  // whose rounds are longer than the test's steps
  claims.steps_by_samples = named({"d-psgd", "sma"});
  claims.keeps_mean = named({"d-psgd", "local-sgd"}) || spec == "all-reduce:average=weights";
  const Options options = strategy_options(spec);
  if (named({"local-sgd", "slow-mo", "diloco"}) &&
      (!named({"local-sgd"}) || options.integer("from_epoch") == 0))
    claims.round = static_cast<int>(options.integer("period"));
  return claims;
}

struct Case {
  std::string spec;
  int servers = 0;
  bool colocated = false;
  std::string collective = "ring";

  Training training(int workers, std::vector<std::size_t> samples) const {
    Training t;
    t.make = [spec = spec](const Crew& crew) { return make_strategy(spec, crew); };
    t.workers = workers;
    t.servers = servers == kEvery ? workers : servers;
    t.colocated = colocated;
    t.collective = collective;
    t.samples = std::move(samples);
    t.memory = collective == "shared" ? Memory::window : Memory::plain;
    t.claims = claims_of(spec);
    return t;
  }

  std::string name() const {
    std::string name = spec + "_" + collective;
    if (servers != 0)
      name += fmt::format("_{}_{}", servers == kEvery ? "all" : std::to_string(servers),
                          colocated ? "colocated" : "dedicated");
    std::ranges::replace_if(
        name, [](unsigned char x) { return !std::isalnum(x); }, '_');
    return name;
  }
  friend std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name(); }
};

// A strategy that has no parameters here is tested with its defaults.
inline std::vector<Case> strategy_cases() {
  const std::map<std::string_view, std::vector<std::string>> more = {
      {"all-reduce", {"average=weights"}},
      {"local-sgd", {"period=1", "period=3", "period=3,from_epoch=1"}},
      {"d-psgd", {"graph=exponential", "graph=complete"}},
      {"slow-mo", {"period=1", "period=2,momentum=0.8,rate=0.5", "period=1,momentum=0"}},
      {"diloco", {"period=1", "period=2", "period=1,lr=1,momentum=0"}},
      {"sma", {"momentum=0", "alpha=0.1"}},
      {"step-wise",
       {"start=fixed", "start=forward", "start=backward", "start=random", "form=token,start=fixed",
        "form=token,start=forward", "form=token,start=backward", "form=token,start=zigzag",
        "form=token,start=random", "full_pass=1", "full_pass=2", "form=token,full_pass=1",
        "form=token,start=random,full_pass=2"}},
  };
  std::vector<Case> all;
  for (const StrategyRow& row : strategies()) {
    if (row.pace != Pace::together) continue;  // see apart.h, round_mail_test.cpp
    std::vector<std::string> specs{std::string(row.name)};
    if (const auto found = more.find(row.name); found != more.end())
      for (const std::string& parameters : found->second)
        specs.push_back(fmt::format("{}:{}", row.name, parameters));
    for (const std::string& spec : specs) {
      if (!row.has_servers()) all.push_back({spec});
      if (!row.has_servers()) continue;
      for (const int servers : {1, 3}) all.push_back({spec, servers, false});
      for (const int servers : {1, kEvery}) all.push_back({spec, servers, true});
    }
  }
  for (const std::string collective : {"shared", "round-robin", "ring-reduce", "double-tree"})
    all.push_back({"all-reduce", 0, false, collective});
  all.push_back({"local-sgd:period=2", 0, false, "shared"});
  return all;
}

}  // namespace lockstep::testing
