#include "train/evaluate.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "collectives/gather.h"
#include "core/whole_file.h"
#include "train/mask_scores.h"
#include "train/worker.h"

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

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

// AuditError unless that is the model.
void prove_same(const Model& found, const Model& model, std::string_view done) {
  if (!same_bits(found.weights, model.weights))
    throw AuditError(fmt::format("audit: the weights that were {} are not the model's", done));
  if (!model.statistics.empty() && !same_bits(found.statistics, model.statistics))
    throw AuditError(
        fmt::format("audit: the statistics of batch norm that were {} are not the model's", done));
}

// Do its samples have a class for each pixel?
bool has_masks(const Dataset& set) { return set.label_shape().size() == 2; }

// From the sums over the test set: right answers, samples and answers by class, and the loss; at
// the end Dice of the images, where there are masks.
void fill_in(Score& score, const std::vector<double>& sums, const Dataset& test) {
  const auto classes = static_cast<std::size_t>(test.classes());
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
  if (!has_masks(test)) return;
  score.dice = sums.back() / static_cast<double>(test.size());
  score.iou = mean_iou(correct, samples, answers);
}

// What this worker answers, or its pipeline does.
Slice part_of_test_set(const Transport& workers, const Experiment& experiment) {
  const std::size_t all = experiment.data.test->size();
  const auto& pipelines = experiment.pipelines;
  return pipelines ? chunk(all, pipelines->count, pipelines->pipeline_of(workers.rank()))
                   : chunk(all, workers.size(), workers.rank());
}

// Of how many copies of the whole network this worker has the count: the workers of a pipeline have
// parts of them, and the first one counts for all.
double copies_counted(const Transport& workers, const Experiment& experiment) {
  const auto& pipelines = experiment.pipelines;
  if (!pipelines) return 1;
  return pipelines->worker_of(workers.rank()) == 0 ? pipelines->schedule.replicas : 0;
}

std::vector<double> numbers_of(const Tally& tally) {
  std::vector<double> numbers = tally.correct;
  numbers.insert(numbers.end(), tally.samples.begin(), tally.samples.end());
  numbers.insert(numbers.end(), tally.answers.begin(), tally.answers.end());
  numbers.push_back(tally.loss_sum);
  return numbers;
}

void prove(const char* what, const std::vector<float>& mean, const std::vector<Term>& terms) {
  if (mean.empty()) return;
  if (const auto wrong = mismatch(projected(mean), terms, mean.size()))
    throw AuditError(fmt::format("audit: the {} of the model {}", what, *wrong));
}

}  // namespace

Projection projected(std::span<const float> numbers) {
  const Values values(const_cast<float*>(numbers.data()), numbers.size(), Type::fp32);
  return project(values, {0, numbers.size()}, purpose_of("audit of models"));
}

void prove_mean(Transport& workers, std::string_view what, std::span<const float> mine,
                double weight, std::span<const float> mean) {
  const Projection had = projected(mine);
  std::vector<double> row{weight, had.square};
  row.insert(row.end(), std::begin(had.along), std::end(had.along));
  const auto rows = all_rows(workers, row);
  double weights = 0;
  for (const auto& theirs : rows) weights += theirs[0];
  std::vector<Term> mix;
  for (const auto& theirs : rows) {
    Term& term = mix.emplace_back(Term{theirs[0] / weights, {}});
    term.of.square = theirs[1];
    std::copy_n(theirs.begin() + 2, kProjections, term.of.along);
  }
  if (const auto wrong = mismatch(projected(mean), mix, mean.size()))
    throw AuditError(fmt::format("audit: rank {}: the {} of the model {}",
                                 workers.job_rank(workers.rank()), what, *wrong));
}

std::vector<float> mean_over(Transport& workers, const std::vector<float>& mine, double weight,
                             bool audit) {
  std::vector<double> sums(mine.begin(), mine.end());
  for (double& value : sums) value *= weight;
  sums.push_back(weight);
  sum_over_ranks(workers, sums);
  if (sums.back() == 0) return mine;
  std::vector<float> mean(mine.size());
  for (std::size_t i = 0; i < mine.size(); ++i) mean[i] = static_cast<float>(sums[i] / sums.back());
  if (audit) prove_mean(workers, "statistics", mine, weight, mean);
  return mean;
}

Model model_of(Transport& workers, Strategy& strategy, Learner& learner, std::uint64_t samples,
               bool audit) {
  Model model{std::vector<float>(learner.replica().weights().count()), learner.statistics()};
  if (const Audit* audit = strategy.parts().audit)
    audit->prove_own(learner.replica().weights(), samples);
  strategy.read_model(learner.replica(),
                      Values(model.weights.data(), model.weights.size(), Type::fp32));
  if (!model.statistics.empty())
    model.statistics =
        mean_over(workers, model.statistics, strategy.mass() * static_cast<double>(samples), audit);
  return model;
}

void evaluate(Transport& workers, Learner& learner, const Experiment& experiment,
              const Model& model, std::span<const float> own, bool takes_part, Score& score,
              Carrier* carrier) {
  const double apart = takes_part ? distance(own, model.weights) : 0;
  const AsModel as_model(learner, model);
  const std::size_t classes = experiment.data.test->classes();
  const Slice mine = part_of_test_set(workers, experiment);
  Tally tally = tally_of(learner, mine, carrier);
  for (auto* by_class : {&tally.correct, &tally.samples, &tally.answers}) by_class->resize(classes);
  // Not the memory that the model was copied to: what the network has answered with.
  if (experiment.config.audit) prove_same(learner.held_by_network(), model, "scored");
  std::vector<double> sums = numbers_of(tally);
  sums.push_back(apart);
  sums.push_back(takes_part ? copies_counted(workers, experiment) : 0);
  if (has_masks(*experiment.data.test)) sums.push_back(tally.dice_sum);
  sum_over_ranks(workers, sums);
  fill_in(score, sums, *experiment.data.test);
  const double taking_part = sums[3 * classes + 2];
  score.consensus_distance = taking_part > 0 ? sums[3 * classes + 1] / taking_part : 0;
}

bool evaluate(Examiner& examiner, const Experiment& experiment, const Model& model, Score& score,
              const std::function<bool()>& goes_on) {
  constexpr std::size_t kAtATime = 500;  // a batch, so that it stops soon where it has to
  const Dataset& test = *experiment.data.test;
  std::vector<double> sums(3 * static_cast<std::size_t>(test.classes()) + 2);
  examiner.take(model);
  for (const Slice part : pieces({0, test.size()}, kAtATime)) {
    if (!goes_on()) return false;
    const Tally tally = examiner.tally(part);
    std::vector<double> some = numbers_of(tally);
    some.push_back(tally.dice_sum);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += some[i];
  }
  if (experiment.config.audit) prove_same(examiner.held(), model, "scored");
  fill_in(score, sums, test);
  return true;
}

std::string save_model(Learner& learner, const Model& model, const std::string& path, bool audit) {
  const AsModel as_model(learner, model);
  if (!path.empty()) learner.save_model(path);
  if (audit) prove_same(learner.held_by_network(), model, "saved");
  if (audit && !path.empty()) prove_same(learner.read_model(path), model, "read back from " + path);
  return checksum(learner.replica().weights().bytes());
}

MeanOfCopies::MeanOfCopies(const ScoreCopy::About& about, const ScoreCopy& first, bool audit)
    : audit_(audit),
      first_(first.weights),
      by_mass_(first_.size()),
      evenly_(first_.size()),
      model_(first.model),
      own_statistics_(first.statistics),
      statistics_(own_statistics_.size()) {
  add(about, first);
  if (!model_.empty()) terms_ = {{1, about.model}};
}

void MeanOfCopies::add(const ScoreCopy::About& about, const ScoreCopy& copy) {
  const double mass = about.mass, weight = mass * about.samples;
  if (mass > 0 && mass_ == 0) {  // the first that takes part: those before it do not count
    std::ranges::fill(evenly_, 0.0f);
    square_ = 0;
    count_ = 0;
  }
  const bool counts = mass > 0 || mass_ == 0;
  for (std::size_t i = 0; i < first_.size(); ++i) {
    const double apart = double(copy.weights[i]) - double(first_[i]);
    by_mass_[i] += static_cast<float>(mass * apart);
    if (!counts) continue;
    evenly_[i] += static_cast<float>(apart);
    square_ += apart * apart;
  }
  for (std::size_t i = 0; i < statistics_.size(); ++i)
    statistics_[i] += weight * copy.statistics[i];
  if (model_.empty()) terms_.push_back({mass, about.weights});
  statistics_terms_.push_back({weight, about.statistics});
  mass_ += mass;
  weight_ += weight;
  if (counts) ++count_;
}

Model MeanOfCopies::model() {
  Model model{std::move(model_), own_statistics_};
  if (model.weights.empty()) {
    const bool all_are_nothing = mass_ == 0;  // those that had taken part are gone
    const std::vector<float>& sum = all_are_nothing ? evenly_ : by_mass_;
    const double whole = all_are_nothing ? count_ : mass_;
    model.weights.resize(first_.size());
    for (std::size_t i = 0; i < first_.size(); ++i)
      model.weights[i] = static_cast<float>(first_[i] + sum[i] / whole);
    for (Term& term : terms_) term.factor = all_are_nothing ? 1 / whole : term.factor / whole;
  }
  for (std::size_t i = 0; i < statistics_.size() && weight_ > 0; ++i)
    model.statistics[i] = static_cast<float>(statistics_[i] / weight_);
  for (Term& term : statistics_terms_) term.factor /= weight_;
  if (!audit_) return model;
  prove("weights", model.weights, terms_);
  if (weight_ > 0) prove("statistics", model.statistics, statistics_terms_);
  return model;
}

double MeanOfCopies::distance(const std::vector<float>& model) const {
  double along = 0, square = 0;
  for (std::size_t i = 0; i < first_.size(); ++i) {
    const double apart = double(model[i]) - double(first_[i]);
    along += apart * evenly_[i];
    square += apart * apart;
  }
  return std::max(0.0, (square_ - 2 * along) / count_ + square);
}

}  // namespace lockstep
