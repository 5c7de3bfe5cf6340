#include "strategy_cases.h"

#include <fmt/format.h>

#include <map>

#include "collectives/all_reduce.h"

namespace lockstep::golden {
namespace {

// Beside what a strategy does by its standard parameters.
std::vector<std::string> specs_of(const std::string& name) {
  static const std::map<std::string, std::vector<std::string>> more = {
      {"all-reduce", {"average=weights"}},
      {"step-wise",
       {"start=fixed", "start=random", "full_pass=2", "form=token", "form=token,start=random",
        "form=token,start=backward,full_pass=2"}},
      {"local-sgd", {"period=1", "period=3,from_epoch=1"}},
      {"ssp", {"staleness=0"}},
      {"easgd", {"mode=sync", "period=1,momentum=0.5"}},
      {"downpour", {"push=2,fetch=3"}},
      {"d-psgd", {"graph=exponential", "graph=complete"}},
      {"gossip", {"p=1"}},
      {"hogwild", {"updates=plain"}},
      {"slow-mo", {"period=2,momentum=0.8,rate=0.5"}},
      {"diloco", {"period=1", "period=3"}},
      {"sma", {"alpha=0.1,momentum=0", "learners=2", "learners=3,auto=on"}},
      {"epoch-average", {"aggregate=weighted", "aggregate=first"}},
  };
  std::vector<std::string> specs{name};
  if (const auto found = more.find(name); found != more.end())
    for (const std::string& parameters : found->second)
      specs.push_back(fmt::format("{}:{}", name, parameters));
  return specs;
}

Job job_of(const Kind& kind, const std::string& spec, int workers) {
  Job job;
  job.spec = spec;
  job.workers = workers;
  job.servers = kind.has_servers ? 1 : 0;
  job.one_host = kind.name == "hogwild";
  if (!kind.in_step) job.steps = 24;
  if (spec.ends_with("auto=on")) job.steps = 50;  // it looks at every sixteenth
  return job;
}

class Cases {
 public:
  std::vector<Case> all() && { return std::move(all_); }

  void add(const Kind& kind, const Job& job, const std::string& variant = "") {
    std::string name = fmt::format("{} {} workers", job.spec, job.workers);
    if (job.servers > 0 && !kind.has_manager)
      name += fmt::format(" {} {}", job.servers, job.colocated ? "colocated" : "dedicated");
    if (!variant.empty()) name += " " + variant;
    all_.push_back({name, job, kind.in_step && !job.spec.ends_with("auto=on")});
  }

  // At 1, 2, 3 and 5 workers.
  void add_sizes(const Kind& kind, const std::string& spec) {
    for (const int workers : {1, 2, 3, 5}) add(kind, job_of(kind, spec, workers));
  }
  void add_placements(const Kind& kind) {
    for (const int workers : {1, 2, 3, 5})
      for (const auto& [servers, colocated] : {std::pair(2, false), {1, true}, {2, true}}) {
        // Beside one worker there is room for one server that is a rank of its own.
        if (colocated && servers > workers && !kind.in_step) continue;
        Job job = job_of(kind, kind.name, workers);
        job.servers = servers;
        job.colocated = colocated;
        add(kind, job);
      }
  }
  void add_variants(const Kind& kind) {
    Job job = job_of(kind, kind.name, 3);
    if (kind.has_servers && !kind.has_manager) job.servers = 2;
    Job uneven = job, idle = job, audited = job, longer = job, hollow = job;
    uneven.samples = audited.samples = hollow.samples = Samples::uneven;
    uneven.windows = true;
    idle.samples = Samples::idle;
    audited.audited = true;
    longer.count = 20'011;  // more than a message that goes unasked (kEagerBytes)
    longer.steps = hollow.steps = 6;
    hollow.hollow = true;
    hollow.count = 1'000'003;
    add(kind, uneven, "uneven");
    add(kind, idle, "idle");
    if (kind.name != "hogwild") add(kind, audited, "audited");  // which has no audit
    add(kind, longer, "long");
    add(kind, hollow, "hollow");
  }
  void add_collectives(const Kind& kind) {
    for (const AllReduceRow& row : all_reduces()) {
      if (!row.sent) continue;  // `auto` stands for one of the others
      Job job = job_of(kind, kind.name, 5);
      job.collective = row.name;
      job.samples = Samples::uneven;
      job.windows = job.one_host = row.name == "shared";
      add(kind, job, fmt::format("by {}", row.name));
    }
  }

 private:
  std::vector<Case> all_;
};

}  // namespace

std::vector<Case> strategy_cases() {
  Cases cases;
  for (const Kind& kind : kinds()) {
    for (const std::string& spec : specs_of(kind.name)) cases.add_sizes(kind, spec);
    if (kind.has_servers && !kind.has_manager) cases.add_placements(kind);
    cases.add_variants(kind);
    if (kind.has_collective) cases.add_collectives(kind);
  }
  return std::move(cases).all();
}

}  // namespace lockstep::golden
