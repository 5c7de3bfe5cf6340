#include "replica/schedule.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/names.h"
#include "core/options.h"
#include "core/units.h"

namespace lockstep {
namespace {

constexpr ScheduleRow kRows[] = {
    {"constant", "", "the same rate throughout"},
    {"step", "every=30,factor=0.1,at=", "times `factor` every so many epochs, or `at` these"},
    {"cosine", "floor=0", "half a cosine from the full rate down to `floor`"},
};

std::uint64_t steps_in(double epochs, const ScheduleInput& input, std::string_view what) {
  if (!(epochs >= 0) || std::isinf(epochs))
    throw UsageError(fmt::format("{} is {}: give a number of epochs", what, epochs));
  return static_cast<std::uint64_t>(
      std::llround(epochs * static_cast<double>(input.steps_per_epoch)));
}

}  // namespace

std::span<const ScheduleRow> schedules() { return kRows; }

Schedule::Schedule(std::string_view spec, const ScheduleInput& input)
    : peak_(input.base_lr * input.scale),
      warmup_(steps_in(input.warmup_epochs, input, "--warmup-epochs")),
      steps_(input.steps) {
  const ScheduleRow& row = row_named("schedule", Options::name_in(spec), kRows);
  const Options options = Options::with_defaults(spec, row.defaults);
  shape_ = static_cast<Shape>(&row - kRows);
  start_ = input.scale != 1 ? input.base_lr : peak_ / static_cast<double>(std::max(warmup_, 1ul));
  if (shape_ == Shape::step) {
    factor_ = options.number("factor");
    if (options.text("at").empty()) {
      every_ = steps_in(options.number("every"), input, "every of 'step'");
      if (every_ == 0) throw UsageError("every of 'step' is 0: give at least one step");
    } else {
      for (const std::string& epoch : options.list("at"))
        drops_.push_back(steps_in(parse_number(epoch), input, "at of 'step'"));
    }
  }
  if (shape_ == Shape::cosine) floor_ = options.number("floor");
}

double Schedule::at(std::uint64_t step) const {
  double rate = peak_;
  if (step < warmup_)
    rate = start_ + (peak_ - start_) * (static_cast<double>(step) / static_cast<double>(warmup_));
  if (shape_ == Shape::step) {
    const auto drops = every_ > 0 ? static_cast<double>(step / every_)
                                  : static_cast<double>(std::ranges::count_if(
                                        drops_, [&](auto drop) { return drop <= step; }));
    rate *= std::pow(factor_, drops);
  }
  if (shape_ == Shape::cosine && step >= warmup_ && steps_ > warmup_) {
    const double done = static_cast<double>(std::min(step, steps_) - warmup_) /
                        static_cast<double>(steps_ - warmup_);
    rate = floor_ + (peak_ - floor_) * 0.5 * (1 + std::cos(M_PI * done));
  }
  return rate;
}

}  // namespace lockstep
