#include "train/evaluate.h"

#include <algorithm>
#include <cmath>

#include "train/files.h"
#include "train/gather.h"

namespace lockstep {
namespace {

std::span<float> floats(Values values) {
  return {reinterpret_cast<float*>(values.bytes().data), values.count()};
}

// While it lives, the learner's weights and statistics are those of the strategy's model.
class AsModel {
 public:
  AsModel(Transport& workers, Strategy& strategy, Learner& learner)
      : learner_(learner),
        weights_(floats(learner.replica().weights())),
        own_(weights_.size()),
        statistics_(learner.statistics()) {
    strategy.read_model(learner.replica(), Values(own_.data(), own_.size(), Type::fp32));
    // Swapped rather than copied: peers may map the memory, but nobody reads it between steps.
    std::ranges::swap_ranges(own_, weights_);
    if (!statistics_.empty()) learner.set_statistics(mean_over(workers, statistics_));
  }
  ~AsModel() {
    std::ranges::copy(own_, weights_.begin());
    if (!statistics_.empty()) learner_.set_statistics(statistics_);
  }
  AsModel(const AsModel&) = delete;

  // How far this worker's own weights are from the model, squared.
  double distance() const {
    double sum = 0;
    for (std::size_t i = 0; i < own_.size(); ++i) {
      const double d = double(own_[i]) - double(weights_[i]);
      sum += d * d;
    }
    return sum;
  }

 private:
  static std::vector<float> mean_over(Transport& workers, const std::vector<float>& mine) {
    std::vector<double> sums(mine.begin(), mine.end());
    sum_over_ranks(workers, sums);
    std::vector<float> mean;
    for (const double sum : sums) mean.push_back(static_cast<float>(sum / workers.size()));
    return mean;
  }

  Learner& learner_;
  std::span<float> weights_;
  std::vector<float> own_;
  std::vector<float> statistics_;
};

}  // namespace

void evaluate(Transport& workers, Strategy& strategy, Learner& learner,
              const Experiment& experiment, Score& score) {
  const AsModel model(workers, strategy, learner);
  const std::size_t classes = experiment.data.test->classes();
  const Slice mine = chunk(experiment.data.test->size(), workers.size(), workers.rank());
  const Tally tally = learner.tally(mine);
  std::vector<double> sums = tally.correct;
  sums.insert(sums.end(), tally.samples.begin(), tally.samples.end());
  sums.push_back(tally.loss_sum);
  sums.push_back(model.distance());
  sum_over_ranks(workers, sums);
  double correct = 0, samples = 0;
  for (std::size_t c = 0; c < classes; ++c) {
    correct += sums[c];
    samples += sums[classes + c];
    score.by_class.push_back(sums[classes + c] > 0 ? sums[c] / sums[classes + c] : 0);
  }
  score.accuracy = samples > 0 ? correct / samples : 0;
  score.loss = samples > 0 ? sums[2 * classes] / samples : 0;
  score.consensus_distance = sums[2 * classes + 1] / workers.size();
}

std::string save_model(Transport& workers, Strategy& strategy, Learner& learner,
                       const std::string& path) {
  const AsModel model(workers, strategy, learner);
  if (workers.rank() != 0) return {};
  if (!path.empty()) learner.save_model(path);
  return checksum(learner.replica().weights().bytes());
}

}  // namespace lockstep
