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

// Samples count from the end of the first step on, when the clock starts.
void SmaTuner::measure(const Step& step) {
  if (crew_.rank.rank() != 0) return;
  if (!measures_) since_s_ = crew_.rank.clock.now();
  for (int w = 0; measures_ && w < crew_.workers; ++w)
    if (w % most_ < learners_) samples_ += step.samples[w];
  measures_ = true;
}

int SmaTuner::decide() {
  const double now = crew_.rank.clock.now();
  const double rate = static_cast<double>(samples_) / std::max(now - since_s_, 1e-9);
  since_s_ = now;
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
