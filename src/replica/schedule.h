// The learning rate as a pure function of the step, so that every rank, and a resumed run, has the
// same one.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace lockstep {

struct ScheduleInput {
  double base_lr = 0.01;  // the optimiser's, meant for one worker's batch
  // By linear scaling the rate grows with the batch of a step: k batches of one worker take
  // k * base_lr (Goyal et al. 2017). 1: no scaling.
  double scale = 1;
  // The rate climbs linearly, step by step, and reaches its full height exactly when these are
  // over: from base_lr where it is scaled, else from the first of equal steps up from zero.
  double warmup_epochs = 0;
  std::uint64_t steps_per_epoch = 1;
  std::uint64_t steps = 1;  // of the whole run
};

struct ScheduleRow {
  std::string_view name, defaults, description;
};

class Schedule {
 public:
  // `spec` is one of schedules(). UsageError says what would be right.
  Schedule(std::string_view spec, const ScheduleInput&);
  double at(std::uint64_t step) const;

 private:
  enum class Shape { constant, step, cosine };

  Shape shape_ = Shape::constant;
  double peak_;
  double start_;
  std::uint64_t warmup_;  // steps
  std::uint64_t steps_;
  std::uint64_t every_ = 0;           // step: steps between two drops,
  std::vector<std::uint64_t> drops_;  // or the steps of the drops
  double factor_ = 1;
  double floor_ = 0;  // cosine: where it ends
};

std::span<const ScheduleRow> schedules();

}  // namespace lockstep
