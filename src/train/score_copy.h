// What workers that go apart give to a score, and the model that it is of.
#pragma once

#include <cstdint>
#include <vector>

#include "strategies/projection.h"
#include "train/evaluate.h"

namespace lockstep {

// One worker's part of a score.
struct ScoreCopy {
  // Goes ahead of the numbers, as it is.
  struct About {
    std::uint64_t steps = 0;        // of the pacemaker
    std::uint64_t run_samples = 0;  // of all workers so far, as this one counts them
    std::uint32_t is_there = 0;     // 0: there is no copy
    std::uint32_t ends_epoch = 0, has_model = 0;
    std::uint32_t left_out = 0;  // scores that this worker has left out so far
    double training_s = 0, mass = 0, bytes = 0;
    double samples = 0;  // of this worker so far: its statistics have not been common since
    // Of this worker: on the shelf since all last met, in an answer since the last score.
    double loss_sum = 0, loss_samples = 0;
    Projection weights = {}, statistics = {}, model = {};  // under the audit
  };
  About about;
  bool paces = false;  // taken by the pacemaker
  std::vector<float> weights, statistics;
  std::vector<float> model;  // where it is not the workers' mean
};

// The mean of copies that come one after the other, by what each counts for, and how far they are
// from it. All is computed from the first: x_0 + sum f_i (x_i - x_0), so that copies that are equal
// have their own mean to the bit, and no distance.
class MeanOfCopies {
 public:
  // What comes with a copy may say otherwise than the copy itself. `audit`: model() proves itself.
  MeanOfCopies(const ScoreCopy::About&, const ScoreCopy& first, bool audit);
  void add(const ScoreCopy::About&, const ScoreCopy&);
  // Once. AuditError.
  Model model();
  // The mean over the copies that take part (see Strategy::mass) of their squared distance from it.
  double distance(const std::vector<float>& model) const;

 private:
  const bool audit_;
  const std::vector<float> first_;
  std::vector<float> by_mass_, evenly_;  // sums of differences; of those that take part
  std::vector<float> model_;             // if it is not their mean
  const std::vector<float> own_statistics_;
  std::vector<double> statistics_;
  std::vector<Term> terms_, statistics_terms_;
  double mass_ = 0, weight_ = 0;
  double square_ = 0;  // of the distances from the first, of those that take part,
  int count_ = 0;      // and how many these are
};

}  // namespace lockstep
