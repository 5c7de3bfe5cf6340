// Small trainings for tests, in any world that fits into one process.
#pragma once

#include <mutex>

#include "cluster/shared_tasks.h"
#include "train/worker.h"
#include "transport/fabric.h"
#include "transport/simulated.h"

namespace lockstep::testing {

// Learnable, without dropout or files, and over in a moment.
inline TrainConfig small_config() {
  TrainConfig config;
  config.model = "mlp:width=16,depth=1";
  config.data = "digits:samples=400,test_samples=100";
  config.batch = 20;
  config.epochs = 1;
  config.optimizer = "sgd:lr=0.1,momentum=0.5";
  config.collective = "ring";
  config.threads = 1;
  return config;
}

inline std::vector<std::string> worlds_of_training() { return {"loopback", "shm", "simulated"}; }

// Rank 0's outcome.
inline WorkerOutcome train_in(const std::string& world, TrainConfig config,
                              WorkerOptions options = {}) {
  complete(config);
  check(config);
  if (world == "simulated" && config.cluster == "local") config.cluster = "sim:step=10ms";
  const Experiment experiment(config, {});
  WorkerOutcome outcome;
  std::mutex turn;
  if (world != "simulated") options.turns = {[&] { turn.lock(); }, [&] { turn.unlock(); }};
  TaskBook tasks(experiment.config.ranks());
  const double call_s = world == "simulated" ? 2 * experiment.simulation->cluster.latency_s : 0;
  options.tasks = [&](Rank& rank) { return std::make_unique<SharedTasks>(tasks, rank, call_s); };
  const Body body = [&](Rank& rank) {
    WorkerOutcome mine = train(rank, experiment, options);
    if (mine.leads) outcome = std::move(mine);
  };
  FabricOptions fabric;
  fabric.seed = config.seed;
  if (world == "loopback") run_loopback(config.ranks(), body, fabric);
  if (world == "shm") run_shm(config.ranks(), body, fabric);
  if (world == "simulated") run_simulated(experiment.simulation->cluster, body);
  return outcome;
}

inline nlohmann::ordered_json summary_in(const std::string& world, const TrainConfig& config) {
  return summary(config, train_in(world, config).result);
}

}  // namespace lockstep::testing
