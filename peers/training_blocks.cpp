// Workers that train in blocks of steps on demand, so that a driver (scripts/bench_training.py) can
// let engines take turns second by second: the speed of a shared machine changes from minute to
// minute, and only what ran in the same moment can be compared.
//
//   training_blocks SETTINGS TURNS      SETTINGS: JSON, as run.json has them; TURNS: a named pipe
//
// Two workers of one thread each on generated samples, but for what SETTINGS say. Starts them on
// this machine, or is one of them where another launcher (in_namespaces) started it.
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
#include "strategies/carriage.h"
#include "strategies/registry.h"
#include "train/worker.h"
#include "transport/channels.h"

namespace lockstep {
namespace {

constexpr Tag kTogether = own_channel(Purpose::control);

class Worker {
 public:
  Worker(Rank& world, const Experiment& experiment)
      : metered_(world),
        plan_(experiment.plan),
        learner_(make_torch_learner(experiment, world.rank(),
                                    [&](std::size_t count) { return open(count); }, {})),
        clock_(rank().clock, 0),
        replica_(learner_->replica()),
        strategy_(strategy_of(experiment)) {
    strategy_->begin(replica_);
    Fed* const fed = strategy_->parts().fed;
    if (!fed || !fed->begins_early()) return;
    fed_ = fed;
    learner_->on_slice_ready([this](Slice part) {
      if (feeds_) fed_->ready(part);
    });
  }

  // Seconds of that many steps, from a common start.
  double block(const std::string& way, int steps) {
    barrier(rank().peers, kTogether);
    const double start = rank().clock.now();
    for (int i = 0; i < steps; ++i, ++taken_) step(way);
    return rank().clock.now() - start;
  }

 private:
  void step(const std::string& way) {
    const Plan::Position at = plan_.position(taken_);
    const Step step{taken_, at.epoch, plan_.samples(at.epoch, at.step)};
    clock_.start();
    feeds_ = fed_ && way == "together";
    if (feeds_) fed_->expect(replica_, step);
    learner_->open_step(taken_);
    compute(*learner_);
    clock_.ready();
    if (way == "meet") barrier(rank().peers, kTogether);
    if (way == "together")
      strategy_->update(replica_, step);
    else
      replica_.apply_gradients(taken_, {0, replica_.weights().count()});
    clock_.end();
  }

  Rank& rank() { return metered_.rank(); }

  std::unique_ptr<Strategy> strategy_of(const Experiment& experiment) {
    const TrainConfig& config = experiment.config;
    Crew crew{rank(), config.workers, config.servers, config.server_placement == "colocated",
              all_reduce_named(config.collective)};
    OptimiserTerms optimiser = optimiser_terms(config);
    optimiser.weights = replica_.weights();
    carry(carriage_of(config), config.strategy, false, optimiser, crew);
    return make_strategy(config.strategy, crew);
  }

  ReplicaMemory open(std::size_t count) {
    weights_ = rank().peers.open_window(count * sizeof(float));
    gradients_ = rank().peers.open_window(count * sizeof(float));
    return {weights_->mine(), gradients_->mine()};
  }

  MeteredRank metered_;
  Plan plan_;
  std::unique_ptr<Window> weights_, gradients_;
  std::unique_ptr<Learner> learner_;
  StepClock clock_;
  Replica& replica_;
  std::unique_ptr<Strategy> strategy_;
  Fed* fed_ = nullptr;  // the strategy, if it begins while backward runs,
  bool feeds_ = false;  // and does so in this step
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
    std::vector<double> seconds;
    for (const auto& row : all_rows(rank.peers, {worker.block(way, steps)}))
      seconds.push_back(row.at(0));
    if (rank.rank() == 0) {
      fmt::print("{}\n", nlohmann::json{{"way", way}, {"seconds", seconds}}.dump());
      std::fflush(stdout);
    }
  }
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  using namespace lockstep;
  if (argc != 3) {
    fmt::print(stderr, "training_blocks SETTINGS TURNS\n");
    return 2;
  }
  TrainConfig config;
  config.workers = 2;
  config.epochs = 1'000'000;
  config.threads = 1;
  config.collective = "shared";
  config.server_placement = "colocated";
  try {
    config = config_from(nlohmann::json::parse(argv[1]), config);
  } catch (const std::exception& e) {
    fmt::print(stderr, "training_blocks: {}\n", e.what());
    return 2;
  }
  config.data = config.model == "vgg16" ? "synthetic:shape=3x32x32,classes=1000,samples=512"
                                        : "synthetic:shape=1x28x28,classes=10,samples=8192";
  config.servers = config.strategy == "parameter-server" ? config.workers : 0;
  return run_ranks(argc, argv, config.workers, [&](Rank& rank) { serve(rank, config, argv[2]); },
                   {.patience_seconds = 3600});
}
