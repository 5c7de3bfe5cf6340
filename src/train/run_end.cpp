#include "train/run_end.h"

#include <algorithm>
#include <numeric>

#include "collectives/broadcast.h"
#include "train/gather.h"
#include "transport/channels.h"

namespace lockstep {
namespace {

constexpr Tag kNext = channels::kEndNext, kCount = channels::kEndCount;

}  // namespace

RunEnd::RunEnd(Rank& rank, const Experiment& experiment, StepClock& clock, bool apart)
    : rank_(rank),
      experiment_(experiment),
      clock_(clock),
      apart_(apart),
      heard_(experiment.config.workers),
      counts_(rank.peers, kCount, experiment.config.workers) {}

bool RunEnd::is_over(std::uint64_t step) {
  if (step >= experiment_.steps) return true;
  const double seconds = experiment_.config.seconds;
  if (apart_ && seconds > 0) return rank_.clock.decided(clock_.training_s() >= seconds);
  if (seconds > 0 && step >= asks_at_) ask(step);
  if (seconds > 0) return asks_at_ <= step;
  if (!ends_by_samples()) return false;
  hear();
  return known() >= experiment_.config.samples;
}

std::int64_t RunEnd::next_question(std::uint64_t step) const {
  const double trained_s = clock_.training_s(), left_s = experiment_.config.seconds - trained_s;
  if (left_s <= 0) return static_cast<std::int64_t>(step);
  const double steps_left = trained_s > 0 ? left_s * static_cast<double>(step) / trained_s : 0;
  const double most = static_cast<double>(experiment_.steps);
  return static_cast<std::int64_t>(
      std::min(most, static_cast<double>(step) + std::max(1.0, steps_left / 2)));
}

void RunEnd::ask(std::uint64_t step) {
  const double start = rank_.clock.now();
  std::int64_t next = rank_.rank() == 0 ? next_question(step) : 0;
  broadcast(rank_.peers, kNext, Values(&next, 1, Type::int64));
  asks_at_ = static_cast<std::uint64_t>(next);
  clock_.between_steps(0, rank_.clock.now() - start);
}

std::uint64_t RunEnd::known() const {
  return std::accumulate(heard_.begin(), heard_.end(), std::uint64_t{0});
}

void RunEnd::hear() {
  while (const auto told = counts_.hear())
    heard_.at(told->from) = std::max(heard_.at(told->from), told->count);
}

void RunEnd::took(std::uint64_t own_samples) {
  if (!ends_by_samples()) return;
  heard_[rank_.rank()] = own_samples;
  const std::uint64_t all = known(), asked = experiment_.config.samples;
  const std::uint64_t left = asked > all ? asked - all : 0;
  if ((own_samples - told_) * 2 * heard_.size() >= left) counts_.tell(told_ = own_samples);
}

void RunEnd::met(Transport& workers, std::uint64_t own_samples) {
  if (!ends_by_samples()) return;
  counts_.end();
  told_ = own_samples;
  const auto rows = all_rows(workers, {static_cast<double>(own_samples)});
  for (int r = 0; r < workers.size(); ++r)
    heard_.at(workers.job_rank(r)) = static_cast<std::uint64_t>(rows[r][0]);
}

}  // namespace lockstep
