#include "strategies/sma_tuner.h"

#include <algorithm>
#include <sstream>

#include "collectives/broadcast.h"

namespace lockstep {
namespace {

constexpr Tag kDecision{Purpose::control, 0x53a};

}  // namespace

SmaTuner::SmaTuner(const Crew& crew, int most, bool searches)
    : crew_(crew),
      most_(most),
      learners_(searches ? 1 : most),
      last_(learners_),
      settled_(!searches || most == 1) {}

void SmaTuner::stepped(const Step& step) {
  if (!settled_) measure(step);
  last_ = learners_;
  next_ = step.number + 1;
  if (settled_ || next_ % kInterval != 0) return;
  std::int64_t decision[2] = {};  // learners, and whether that is it
  if (crew_.rank.rank() == 0) {
    decision[0] = decide();
    decision[1] = settled_;
  }
  broadcast(crew_.rank.peers, kDecision, {decision, 2, Type::int64});
  learners_ = static_cast<int>(decision[0]);
  settled_ = decision[1] != 0;
}

void SmaTuner::measure(const Step& step) {
  if (crew_.rank.rank() != 0) return;
  const double now = crew_.rank.clock.now();
  if (stepped_at_s_) {
    step_s_.push_back(now - *stepped_at_s_);
    for (int w = 0; w < crew_.workers; ++w)
      if (w % most_ < learners_) samples_ += step.samples[w];
  }
  stepped_at_s_ = now;
}

int SmaTuner::decide() {
  if (step_s_.size() < kInterval / 4) return learners_;  // resumed just now
  const auto middle = step_s_.begin() + static_cast<std::ptrdiff_t>(step_s_.size() / 2);
  std::ranges::nth_element(step_s_, middle);
  const double rate =
      static_cast<double>(samples_) / static_cast<double>(step_s_.size()) / std::max(*middle, 1e-9);
  step_s_.clear();
  samples_ = 0;
  const bool gained = rate > kGain * best_;
  best_ = rate;
  settled_ = !gained || learners_ == most_;
  if (!gained) return std::max(1, learners_ - 1);
  return settled_ ? learners_ : learners_ + 1;
}

std::string SmaTuner::state() const {
  return fmt::format("{} {} {} {} {}", learners_, last_, settled_ ? 1 : 0, next_, best_);
}

void SmaTuner::restore(const std::string& state) {
  std::istringstream in(state);
  if (!(in >> learners_ >> last_ >> settled_ >> next_ >> best_) || learners_ < 1 ||
      learners_ > most_)
    throw UsageError("the saved state of sma is damaged or of other learners");
}

}  // namespace lockstep
