// Every strategy on toy replicas: weights, models, what is kept for checkpoints, bytes by purpose
// and virtual time, as recorded in strategies.txt. Simulation writes that file. On threads, which
// have no virtual time, all strategies that keep in step come to the same.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/error.h"
#include "in_a_process.h"
#include "strategy_cases.h"
#include "worlds.h"

namespace lockstep::golden {
namespace {

using Outcome = std::vector<OnRank>;

const std::vector<std::string> kFieldsOfTime = {"seconds", "clock", "waited", "hidden"};

template <class Of>
std::string one_hash(const Outcome& ranks, Of of) {
  Hash all;
  for (const OnRank& rank : ranks) all.add(of(rank));
  return all.text();
}
template <class Of>
std::string listed(const Outcome& ranks, Of of) {
  std::vector<std::string> texts;
  for (const OnRank& rank : ranks) texts.push_back(of(rank));
  return fmt::format("{}", fmt::join(texts, ","));
}
template <class Number>
auto total(const Outcome& ranks, Number OnRank::*of) {
  Number sum{};
  for (const OnRank& rank : ranks) sum += rank.*of;
  return sum;
}

std::vector<Purpose> purposes() {
  std::vector<Purpose> all;
  for (int p = 0; p < kPurposes; ++p) all.push_back(static_cast<Purpose>(p));
  return all;
}

// Bytes and messages that all ranks sent, by purpose: `gradients:4096/12`.
std::string sent_by_all(const Outcome& ranks) {
  std::vector<std::string> texts;
  for (const Purpose purpose : purposes()) {
    Traffic all;
    for (const OnRank& rank : ranks) all += total_of(rank.moved, purpose);
    if (all == Traffic{}) continue;
    texts.push_back(fmt::format("{}:{}/{}", name_of(purpose), all.bytes_sent, all.messages_sent));
  }
  return texts.empty() ? "nothing" : fmt::format("{}", fmt::join(texts, ","));
}

// Of a rank, both ways, by peer. A purpose that nobody uses leaves no trace.
std::uint64_t hash_of(const Ledger& ledger) {
  Hash hash;
  for (int peer = 0; peer < ledger.ranks(); ++peer)
    for (const Purpose purpose : purposes()) {
      const Traffic& t = ledger.at(peer, purpose);
      if (t == Traffic{}) continue;
      hash.add(fmt::format("{} {} {} {} {} {};", peer, name_of(purpose), t.bytes_sent,
                           t.messages_sent, t.bytes_received, t.messages_received));
    }
  return hash.value();
}

std::uint64_t hash_of(const std::vector<double>& numbers) {
  Hash hash;
  for (const double number : numbers) hash.add(number);
  return hash.value();
}

Line line_of(const std::string& name, const Outcome& ranks) {
  Line line{name, {}};
  line.add("weights", listed(ranks, [](const OnRank& r) {
             Hash hash;
             hash.add(r.weights);
             return hash.short_text();
           }));
  line.add("path", one_hash(ranks, [](const OnRank& r) { return r.path; }));
  line.add("model", one_hash(ranks, [](const OnRank& r) { return r.model; }));
  line.add("kept", one_hash(ranks, [](const OnRank& r) { return r.kept; }));
  line.add("state", one_hash(ranks, [](const OnRank& r) { return std::string_view(r.state); }));
  line.add("mass", listed(ranks, [](const OnRank& r) { return exact(r.mass); }));
  line.add("contributions",
           fmt::format("{}:{}", total(ranks, &OnRank::contributions),
                       one_hash(ranks, [](const OnRank& r) { return r.contributed; })));
  line.add("unsent",
           fmt::format("{}/{}", total(ranks, &OnRank::merged), total(ranks, &OnRank::withheld)));
  line.add("sent", sent_by_all(ranks));
  line.add("ledgers", one_hash(ranks, [](const OnRank& r) { return hash_of(r.moved); }));
  double last_s = 0;
  for (const OnRank& rank : ranks) last_s = std::max(last_s, rank.at_s.back());
  line.add("seconds", exact(last_s));
  line.add("clock", one_hash(ranks, [](const OnRank& r) { return hash_of(r.at_s); }));
  line.add("waited", exact(total(ranks, &OnRank::waited_s)));
  line.add("hidden", exact(total(ranks, &OnRank::hidden_s)));
  return line;
}

using RunWorld = std::function<void(const Job&, const Body&)>;

Line line_of(const Case& c, const RunWorld& world) {
  Outcome ranks(ranks_of(c.job));
  try {
    world(c.job, [&](Rank& rank) { ranks[rank.rank()] = run(c.job, rank); });
  } catch (const UsageError& refusal) {
    return {c.name, {{"refused", refusal.what()}}};
  } catch (const std::exception& failure) {
    return {c.name, {{"failed", failure.what()}}};
  }
  return line_of(c.name, ranks);
}

// Each rank on a host of its own, but for guests; or all on one.
void run_in_simulation(const Job& job, const Body& body) {
  SimulatedCluster cluster;
  cluster.ranks = ranks_of(job);
  cluster.guests = guests_of(job);
  if (job.one_host) cluster.ranks_per_host = cluster.ranks;
  cluster.hollow_windows = job.hollow;
  run_simulated(cluster, body);
}

TEST(GoldenStrategies, InSimulation) {
  std::vector<Line> lines;
  for (const Case& c : strategy_cases())
    lines.push_back(in_a_process(c.name, [&] { return line_of(c, run_in_simulation); }));
  EXPECT_TRUE(compare_or_write("strategies.txt", lines));
}

// The same lines but for time, of those whose bits do not depend on it.
void compare_threads(const std::function<void(int, const Body&, const FabricOptions&)>& world,
                     bool carries_hollow) {
  Except except{kFieldsOfTime, {}};
  std::vector<Line> lines;
  for (const Case& c : strategy_cases()) {
    if (c.in_step && (carries_hollow || !c.job.hollow))
      lines.push_back(
          line_of(c, [&](const Job& job, const Body& body) { world(ranks_of(job), body, {}); }));
    else
      except.cases.push_back(c.name);
  }
  EXPECT_TRUE(compare_with("strategies.txt", lines, except));
}
TEST(GoldenStrategies, OverLoopback) { compare_threads(run_loopback, true); }
TEST(GoldenStrategies, OverSharedMemory) { compare_threads(run_shm, false); }

}  // namespace
}  // namespace lockstep::golden
