#include "train/score_copy.h"

#include <algorithm>
#include <utility>

namespace lockstep {
namespace {

void prove(const char* what, const std::vector<float>& mean, const std::vector<Term>& terms) {
  if (mean.empty()) return;
  if (const auto wrong = mismatch(projected(mean), terms, mean.size()))
    throw AuditError(fmt::format("audit: the {} of the model {}", what, *wrong));
}

}  // namespace

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
