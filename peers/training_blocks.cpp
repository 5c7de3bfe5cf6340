// Two workers that train in blocks of steps on demand, so that a driver (scripts/bench_training.py)
// can let engines take turns second by second: the speed of a shared machine changes from minute to
// minute, and only what ran in the same moment can be compared.
//
//   training_blocks MODEL BATCH STRATEGY TURNS      TURNS: a named pipe
//
// Reads lines from the pipe, each a way and a number of steps, and answers each with one line of
// JSON, the seconds that each rank took. The ways: `together` (the strategy), `alone` (every worker
// for itself), `meet` (alone, but waiting for each other every step: what the slower core costs any
// synchronous strategy). Ends at the end of the pipe.
#include <torch/torch.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "collectives/all_reduce.h"
#include "collectives/barrier.h"
#include "collectives/gather.h"
#include "lockstep/ranks.h"
#include "measure/machine.h"
#include "measure/metered.h"
#include "measure/step_clock.h"
#include "strategies/registry.h"
#include "train/worker.h"
#include "transport/channels.h"

namespace lockstep {
namespace {

constexpr Tag kTogether = own_channel(Purpose::control);

class Worker {
 public:
  Worker(Rank& world, const Experiment& experiment)
      : ledger_(world.size()),
        metered_(world.peers, ledger_),
        rank_{metered_, world.clock, world.background, world.lock, world.seed},
        plan_(experiment.plan),
        learner_(make_torch_learner(experiment, rank_.rank(),
                                    [&](std::size_t count) { return open(count); }, {})),
        clock_(rank_.clock, 0),
        replica_(learner_->replica(), rank_.clock, clock_),
        strategy_(make_strategy(
            experiment.config.strategy,
            {rank_, experiment.config.workers, experiment.config.servers,
             experiment.config.server_placement == "colocated", all_reduce_named("shared")})) {}

  // Seconds of that many steps, from a common start.
  double block(const std::string& way, int steps) {
    barrier(metered_, kTogether);
    const double start = rank_.clock.now();
    for (int i = 0; i < steps; ++i, ++taken_) step(way);
    return rank_.clock.now() - start;
  }

 private:
  void step(const std::string& way) {
    const Plan::Position at = plan_.position(taken_);
    clock_.start();
    compute(*learner_, learner_->open_step(taken_));
    clock_.ready();
    if (way == "meet") barrier(metered_, kTogether);
    if (way == "together")
      strategy_->update(replica_, {taken_, at.epoch, plan_.samples(at.epoch, at.step)});
    else
      replica_.apply_gradients(taken_, {0, replica_.weights().count()});
    clock_.end();
  }

  ReplicaMemory open(std::size_t count) {
    weights_ = metered_.open_window(count * sizeof(float));
    gradients_ = metered_.open_window(count * sizeof(float));
    return {weights_->mine(), gradients_->mine()};
  }

  Ledger ledger_;
  Metered metered_;
  Rank rank_;
  Plan plan_;
  std::unique_ptr<Window> weights_, gradients_;
  std::unique_ptr<Learner> learner_;
  StepClock clock_;
  TimedReplica replica_;
  std::unique_ptr<Strategy> strategy_;
  std::uint64_t taken_ = 0;
};

void serve(Rank& rank, const TrainConfig& config, const std::string& pipe) {
  bind_to_core(rank.rank(), rank.size());
  const Experiment experiment(config, {});
  Worker worker(rank, experiment);
  std::ifstream turns;
  if (rank.rank() == 0) turns.open(pipe);
  for (;;) {
    std::string line;
    if (rank.rank() == 0) std::getline(turns, line);
    line = text_of_first(rank.peers, line);
    if (line.empty()) return;
    std::istringstream words(line);
    std::string way;
    int steps = 0;
    words >> way >> steps;
    const auto seconds = all_rows(rank.peers, {worker.block(way, steps)});
    if (rank.rank() == 0) {
      fmt::print("{}\n",
                 nlohmann::json{{"way", way}, {"seconds", {seconds[0][0], seconds[1][0]}}}.dump());
      std::fflush(stdout);
    }
  }
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  using namespace lockstep;
  if (argc != 5) {
    fmt::print(stderr, "training_blocks MODEL BATCH STRATEGY TURNS\n");
    return 2;
  }
  TrainConfig config;
  config.workers = 2;
  config.model = argv[1];
  config.batch = std::atoi(argv[2]);
  config.strategy = argv[3];
  config.data = config.model == "vgg16" ? "synthetic:shape=3x32x32,classes=1000,samples=512"
                                        : "synthetic:shape=1x28x28,classes=10,samples=8192";
  config.epochs = 1'000'000;
  config.threads = 1;
  config.server_placement = "colocated";
  config.servers = config.strategy == "parameter-server" ? 2 : 0;
  return run_ranks(argc, argv, 2, [&](Rank& rank) { serve(rank, config, argv[4]); },
                   {.patience_seconds = 3600});
}
