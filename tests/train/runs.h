// Small trainings for tests, in any world that fits into one process.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <mutex>

#include "folder.h"
#include "train/trainer.h"
#include "transport/decorators/conditions.h"
#include "transport/fabric.h"
#include "transport/simulated/simulated.h"

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

// Rank 0's outcome. `change`: to a simulated cluster, before it runs.
inline WorkerOutcome train_in(const std::string& world, TrainConfig config,
                              WorkerOptions options = {},
                              const std::function<void(SimulatedCluster&)>& change = {}) {
  complete(config);
  check(config);
  if (world == "simulated" && config.cluster == "local") config.cluster = "sim:step=10ms";
  Experiment experiment(config, {});
  if (change) change(experiment.simulation->cluster);
  WorkerOutcome outcome;
  std::mutex turn;
  if (world != "simulated") options.turns = {[&] { turn.lock(); }, [&] { turn.unlock(); }};
  const Body body = [&](Rank& rank) {
    Conditioned conditioned(rank, conditions_from(config.faults, config.shape, config.ranks()),
                            [&](double seconds) { rank.clock.charge(seconds); });
    WorkerOutcome mine = train(conditioned.rank(), experiment, options);
    if (mine.leads) outcome = std::move(mine);
  };
  FabricOptions fabric;
  fabric.seed = config.seed;
  fabric.lanes = experiment.lanes();
  if (world == "loopback") run_loopback(config.ranks(), body, fabric);
  if (world == "shm") run_shm(config.ranks(), body, fabric);
  if (world != "simulated") return outcome;
  experiment.simulation->cluster.lanes = experiment.lanes();
  run_simulated(experiment.simulation->cluster, body);
  return outcome;
}

// Where a test's run goes; the run is made by the caller.
class TestFolder {
 public:
  const std::string& path() const { return path_; }

 private:
  Folder folder_;
  std::string path_ = folder_ / "run";
};

// A simulated run in which those ranks die.
inline TrainResult with_deaths(const TrainConfig& config,
                               const std::vector<SimulatedCluster::Death>& deaths) {
  return train_in("simulated", config, {},
                  [&](SimulatedCluster& cluster) { cluster.deaths = deaths; })
      .result;
}

// What `text` returns in a process of its own: a process can simulate once. Empty if it throws.
inline std::string in_a_process(const std::function<std::string()>& text) {
  int ends[2];
  if (pipe(ends) != 0) throw_errno("pipe");
  const pid_t child = fork();
  if (child == 0) {
    try {
      const std::string said = text();
      (void)!write(ends[1], said.data(), said.size());
    } catch (const std::exception& e) {
      fmt::print(stderr, "{}\n", e.what());
    }
    _exit(0);
  }
  close(ends[1]);
  std::string all;
  char some[4096];
  for (ssize_t n; (n = read(ends[0], some, sizeof some)) > 0;)
    all.append(some, static_cast<std::size_t>(n));
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return all;
}

inline nlohmann::ordered_json summary_in(const std::string& world, const TrainConfig& config) {
  return summary(config, train_in(world, config).result);
}

}  // namespace lockstep::testing
