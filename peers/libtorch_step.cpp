// A bare LibTorch loop as a peer: what does our step cost beside one that knows nothing of us? Both
// train the same network on the same batches with the same malloc settings, one thread, in turns
// within one process, so that the ratio holds on a busy machine.
//
//   libtorch_step [MODEL [BATCH [REPEATS]]]      (mnist-cnn 64 15)
//
// Prints the median and the range of ours / theirs over the repeats, as JSON.
#include <torch/torch.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "data/loader.h"
#include "models/registry.h"
#include "one_worker.h"
#include "replica/malloc.h"
#include "train/learner.h"
#include "transport/fabric.h"
#include "transport/real_rank.h"

namespace lockstep {
namespace {

constexpr int kStepsEach = 20;

// The loop of LibTorch's own examples.
class Bare {
 public:
  explicit Bare(const Experiment& experiment)
      : network_(network_for(experiment)),
        optimizer_(tensors(), torch::optim::SGDOptions(0.01).momentum(0.5)),
        plan_(experiment.plan),
        loader_(
            *experiment.data.train, [this](std::uint64_t step) { return picks(step); },
            experiment.steps) {
    network_->train(true);
  }

  void step(std::uint64_t number) {
    const Batch batch = loader_.batch(number);
    optimizer_.zero_grad();
    torch::Tensor loss = torch::nn::functional::cross_entropy(network_->forward(batch.x), batch.y);
    loss.backward();
    optimizer_.step();
    loss_ = loss.item<double>();
  }

 private:
  std::vector<torch::Tensor> tensors() const {
    std::vector<torch::Tensor> all;
    for (const NamedTensor& named : network_->parameters()) all.push_back(named.tensor);
    return all;
  }
  Picks picks(std::uint64_t step) {
    const Plan::Position at = plan_.position(step);
    const auto indices = plan_.indices(0, at.epoch, at.step);
    return {{indices.begin(), indices.end()}, 0};
  }

  std::unique_ptr<Network> network_;
  torch::optim::SGD optimizer_;
  Plan plan_;
  Loader loader_;
  double loss_ = 0;
};

template <class Loop>
double seconds_of(Loop& loop, std::uint64_t first) {
  const double start = wall_now();
  for (int i = 0; i < kStepsEach; ++i) loop.step(first + i);
  return (wall_now() - start) / kStepsEach;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void compare(Rank& rank, const Experiment& experiment, int repeats) {
  Bare bare(experiment);
  OneWorker ours(rank, experiment);
  std::vector<double> theirs_s, ours_s, ratios;
  for (int i = -1; i < repeats; ++i) {  // the first is for warming up
    const std::uint64_t first = static_cast<std::uint64_t>(i + 1) * kStepsEach;
    // Who goes first changes, so that neither always finds the caches as the other left them.
    double a = 0, b = 0;
    if (i % 2 == 0) a = seconds_of(bare, first);
    b = seconds_of(ours, first);
    if (i % 2 != 0) a = seconds_of(bare, first);
    if (i < 0) continue;
    theirs_s.push_back(a);
    ours_s.push_back(b);
    ratios.push_back(b / a);
  }
  fmt::print("{}\n", nlohmann::ordered_json{{"engine", "libtorch"},
                                            {"model", experiment.config.model},
                                            {"batch", experiment.config.batch},
                                            {"bare_ms", 1e3 * median(theirs_s)},
                                            {"ours_ms", 1e3 * median(ours_s)},
                                            {"ratio", median(ratios)},
                                            {"ratio_min", *std::ranges::min_element(ratios)},
                                            {"ratio_max", *std::ranges::max_element(ratios)}}
                         .dump());
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  using namespace lockstep;
  const int repeats = argc > 3 ? std::atoi(argv[3]) : 15;
  TrainConfig config;
  config.workers = 1;
  config.model = argc > 1 ? argv[1] : "mnist-cnn";
  config.batch = argc > 2 ? std::atoi(argv[2]) : 64;
  config.data = config.model == "mnist-cnn" ? "synthetic:shape=1x28x28,classes=10,samples=4096"
                                            : "synthetic:shape=3x32x32,classes=1000,samples=512";
  config.steps = static_cast<std::uint64_t>(repeats + 1) * kStepsEach;
  config.threads = 1;
  keep_freed_memory();
  torch::set_num_threads(1);
  const Experiment experiment(config, {});
  run_loopback(1, [&](Rank& rank) { compare(rank, experiment, repeats); });
}
