// Whole trainings without numbers: what the training loop adds to a strategy's bytes and virtual
// time, for every strategy, as recorded in golden/runs.txt. The summary of a run, which users see,
// is all that is looked at. No network computes here, so every machine comes to the same.
#include "train/runs.h"

#include <gtest/gtest.h>

#include "golden/adapter.h"
#include "golden/in_a_process.h"

namespace lockstep::golden {
namespace {

using Json = nlohmann::ordered_json;

struct TrainCase {
  std::string name;
  TrainConfig config;
  std::vector<SimulatedCluster::Death> deaths = {};
};

// 370 samples do not divide by the batches, nor steps by the periods.
TrainConfig config_of(const Kind& kind, int workers) {
  TrainConfig config;
  config.strategy = kind.name;
  if (kind.name == "slow-mo" || kind.name == "diloco") config.strategy += ":period=3";
  config.workers = workers;
  config.servers = kind.has_servers && !kind.has_manager ? 2 : -1;
  config.model = "mlp:width=16,depth=1";
  config.data = "digits:samples=370,test_samples=100";
  config.batch = 20;
  config.epochs = 2;
  config.threads = 1;
  config.timeline = "none";
  config.sample_every = 0;
  config.cluster = "sim:step=10ms,numerics=off,bandwidth=100Mbps";
  if (kind.name == "hogwild") config.cluster += ",ranks_per_host=8";
  if (workers > 1) config.cluster += ",slow=rank1:1.375";
  return config;
}

std::vector<TrainCase> train_cases() {
  std::vector<TrainCase> all;
  for (const Kind& kind : kinds()) {
    for (const int workers : {1, 2, 3, 5})
      all.push_back({fmt::format("{} {} workers", kind.name, workers), config_of(kind, workers)});
    const auto add = [&](const std::string& variant) -> TrainCase& {
      all.push_back({fmt::format("{} 3 workers {}", kind.name, variant), config_of(kind, 3)});
      return all.back();
    };
    if (kind.has_servers && !kind.has_manager)
      add("colocated").config.server_placement = "colocated";
    if (!kind.has_manager) add("seconds").config.seconds = 0.2;
    add("evaluated").config.evaluate_every = 4;
    if (!kind.in_step || kind.has_manager) add("death").deaths = {{2, 0.055}};
  }
  return all;
}

std::string listed(const Json& ranks, const char* key) {
  std::vector<std::string> texts;
  for (const Json& rank : ranks) texts.push_back(rank.at(key).dump());
  return fmt::format("{}", fmt::join(texts, ","));
}

Line line_of(const TrainCase& c) try {
  const auto change = [&](SimulatedCluster& cluster) { cluster.deaths = c.deaths; };
  const Json run = summary(c.config, testing::train_in("simulated", c.config, {}, change).result);
  const Json& ranks = run.at("workers_detail");
  Line line{c.name, {}};
  line.add("steps", listed(ranks, "steps"));
  line.add("samples", listed(ranks, "samples"));
  line.add("collective", run.at("collective").dump());
  line.add("sent", listed(ranks, "bytes_sent"));
  line.add("received", listed(ranks, "bytes_received"));
  line.add("messages", listed(ranks, "messages_sent"));
  line.add("other", listed(ranks, "bytes_other"));
  line.add("lost", run.at("lost").dump());
  line.add("mass", listed(ranks, "mass"));
  Hash contributions, spent;
  contributions.add(listed(ranks, "contributions"));
  line.add("contributions", contributions.text());
  line.add("seconds", exact(run.at("train_seconds").get<double>()));
  for (const Json& s : run.at("seconds_by_epoch")) spent.add(s.get<double>());
  for (const char* key :
       {"compute_seconds", "communicate_seconds", "hidden_seconds", "wait_seconds"})
    for (const Json& rank : ranks) spent.add(rank.at(key).get<double>());
  line.add("spent", spent.text());
  return line;
} catch (const UsageError& refusal) {
  return {c.name, {{"refused", refusal.what()}}};
} catch (const std::exception& failure) {
  return {c.name, {{"failed", failure.what()}}};
}

TEST(GoldenRuns, WithoutNumbers) {
  std::vector<Line> lines;
  for (const TrainCase& c : train_cases())
    lines.push_back(in_a_process(c.name, [&] { return line_of(c); }));
  EXPECT_TRUE(compare_or_write("runs.txt", lines));
}

}  // namespace
}  // namespace lockstep::golden
