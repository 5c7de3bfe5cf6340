#include "train/evaluate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "train/files.h"
#include "train/gather.h"

namespace lockstep {
namespace {

// While it lives, the learner's weights and statistics are the model's. Peers may map the memory,
// but nobody reads it between steps.
class AsModel {
 public:
  AsModel(Learner& learner, const Model& model)
      : learner_(learner),
        weights_(floats(learner.replica().weights())),
        own_(weights_.begin(), weights_.end()),
        statistics_(learner.statistics()) {
    std::ranges::copy(model.weights, weights_.begin());
    if (!model.statistics.empty()) learner.set_statistics(model.statistics);
  }
  ~AsModel() {
    std::ranges::copy(own_, weights_.begin());
    if (!statistics_.empty()) learner_.set_statistics(statistics_);
  }
  AsModel(const AsModel&) = delete;

 private:
  Learner& learner_;
  std::span<float> weights_;
  std::vector<float> own_;
  std::vector<float> statistics_;
};

// How far `own` is from the model, squared.
double distance(std::span<const float> own, const std::vector<float>& model) {
  double sum = 0;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const double d = double(own[i]) - double(model[i]);
    sum += d * d;
  }
  return sum;
}

}  // namespace

std::vector<float> mean_over(Transport& workers, const std::vector<float>& mine, double mass) {
  std::vector<double> sums(mine.begin(), mine.end());
  for (double& value : sums) value *= mass;
  sums.push_back(mass);
  sum_over_ranks(workers, sums);
  std::vector<float> mean(mine.size());
  for (std::size_t i = 0; i < mine.size(); ++i) mean[i] = static_cast<float>(sums[i] / sums.back());
  return mean;
}

Model model_of(Transport& workers, Strategy& strategy, Learner& learner) {
  Model model{std::vector<float>(learner.replica().weights().count()), learner.statistics()};
  strategy.read_model(learner.replica(),
                      Values(model.weights.data(), model.weights.size(), Type::fp32));
  if (!model.statistics.empty())
    model.statistics = mean_over(workers, model.statistics, strategy.mass());
  return model;
}

void evaluate(Transport& workers, Learner& learner, const Experiment& experiment,
              const Model& model, std::span<const float> own, Score& score) {
  const double apart = distance(own, model.weights);
  const AsModel as_model(learner, model);
  const std::size_t classes = experiment.data.test->classes();
  const Slice mine = chunk(experiment.data.test->size(), workers.size(), workers.rank());
  const Tally tally = learner.tally(mine);
  std::vector<double> sums = tally.correct;
  sums.insert(sums.end(), tally.samples.begin(), tally.samples.end());
  sums.insert(sums.end(), tally.answers.begin(), tally.answers.end());
  sums.push_back(tally.loss_sum);
  sums.push_back(apart);
  sum_over_ranks(workers, sums);
  const std::span<const double> correct(sums.data(), classes), samples(&sums[classes], classes),
      answers(&sums[2 * classes], classes);
  for (std::size_t c = 0; c < classes; ++c)
    score.by_class.push_back(samples[c] > 0 ? correct[c] / samples[c] : 0);
  const double all = std::accumulate(samples.begin(), samples.end(), 0.0);
  if (all > 0) {
    score.accuracy = std::accumulate(correct.begin(), correct.end(), 0.0) / all;
    score.loss = sums[3 * classes] / all;
    score.most_predicted = *std::ranges::max_element(answers) / all;
  }
  score.consensus_distance = sums[3 * classes + 1] / workers.size();
}

std::string save_model(Learner& learner, const Model& model, const std::string& path) {
  const AsModel as_model(learner, model);
  if (!path.empty()) learner.save_model(path);
  return checksum(learner.replica().weights().bytes());
}

}  // namespace lockstep
