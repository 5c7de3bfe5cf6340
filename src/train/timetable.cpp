#include "train/timetable.h"

#include <algorithm>
#include <numeric>

#include "collectives/broadcast.h"
#include "collectives/gather.h"
#include "transport/channels.h"

namespace lockstep {
namespace {

constexpr Tag kNext = channels::kEndNext, kCount = channels::kEndCount;

}  // namespace

Timetable::Timetable(Rank& rank, const Experiment& experiment, const WorkerOptions& options,
                     Plan& plan, StepClock& clock)
    : rank_(rank),
      experiment_(experiment),
      options_(options),
      clock_(clock),
      plan_(plan),
      apart_(!experiment.in_step()),
      last_step_(experiment.steps),
      heard_(experiment.config.workers),
      counts_(rank.peers, kCount, experiment.config.workers) {}

bool Timetable::is_over(std::uint64_t step) {
  if (step >= experiment_.steps) return true;
  const double seconds = experiment_.config.seconds;
  if (apart_ && seconds > 0) return rank_.clock.decided(clock_.training_s() >= seconds);
  if (seconds > 0 && step >= asks_at_) ask(step);
  if (seconds > 0) return asks_at_ <= step;
  if (!ends_by_samples()) return false;
  while (const auto told = counts_.hear())
    heard_.at(told->from) = std::max(heard_.at(told->from), told->count);
  return known() >= experiment_.config.samples;
}

std::int64_t Timetable::next_question(std::uint64_t step) const {
  const double trained_s = clock_.training_s(), left_s = experiment_.config.seconds - trained_s;
  if (left_s <= 0) return static_cast<std::int64_t>(step);
  const double steps_left = trained_s > 0 ? left_s * static_cast<double>(step) / trained_s : 0;
  const double most = static_cast<double>(experiment_.steps);
  return static_cast<std::int64_t>(
      std::min(most, static_cast<double>(step) + std::max(1.0, steps_left / 2)));
}

void Timetable::ask(std::uint64_t step) {
  const double start = rank_.clock.now();
  std::int64_t next = rank_.rank() == 0 ? next_question(step) : 0;
  broadcast(rank_.peers, kNext, Values(&next, 1, Type::int64));
  asks_at_ = static_cast<std::uint64_t>(next);
  clock_.between_steps(0, rank_.clock.now() - start);
}

std::uint64_t Timetable::known() const {
  return std::accumulate(heard_.begin(), heard_.end(), std::uint64_t{0});
}

void Timetable::took(std::uint64_t own_samples) {
  if (!ends_by_samples()) return;
  heard_[rank_.rank()] = own_samples;
  const std::uint64_t all = known(), asked = experiment_.config.samples;
  const std::uint64_t left = asked > all ? asked - all : 0;
  if ((own_samples - told_) * 2 * heard_.size() >= left) counts_.tell(told_ = own_samples);
}

void Timetable::met(Transport& workers, std::uint64_t own_samples) {
  if (!ends_by_samples()) return;
  counts_.end();
  told_ = own_samples;
  const auto rows = all_rows(workers, {static_cast<double>(own_samples)});
  for (int r = 0; r < workers.size(); ++r)
    heard_.at(workers.job_rank(r)) = static_cast<std::uint64_t>(rows[r][0]);
}

bool Timetable::ends_epoch(std::uint64_t taken) {
  return taken == last_step_ || plan_.position(taken).step == 0;
}

bool Timetable::score_due(std::uint64_t taken) {
  const std::uint64_t every = experiment_.config.evaluate_every;
  return ends_epoch(taken) || (every > 0 && taken % every == 0);
}

bool Timetable::checkpoint_due(std::uint64_t taken) const {
  const std::uint64_t every = experiment_.config.checkpoint_every;
  return options_.folder && every > 0 && taken % every == 0;
}

std::uint64_t Timetable::next_meeting(std::uint64_t first) const {
  if (first >= experiment_.steps) return first;
  const std::uint64_t every = experiment_.config.checkpoint_every;
  const std::uint64_t next = every > 0 ? (first / every + 1) * every : 0;
  return checkpoint_due(next) ? std::min(next, experiment_.steps) : experiment_.steps;
}

bool Timetable::stops_with_checkpoint() const {
  return options_.stopped && options_.folder && experiment_.config.checkpoint_every > 0;
}

void Timetable::check_stopped() const {
  if (options_.stopped && options_.stopped()) throw Stopped("the run was stopped");
}

// Ranks of several processes hear of a signal at different steps, so they ask each other from time
// to time: rank 0's clock says after how many steps.
bool Timetable::stops_here(std::uint64_t taken) {
  constexpr double kAskEverySeconds = 0.25;
  constexpr double kMostSteps = 1000;
  if (!stops_with_checkpoint()) {
    check_stopped();
    return false;
  }
  if (options_.stopped_after) return options_.stopped_after(taken);
  if (taken < vote_.next) return false;
  const double now = rank_.clock.now(), passed_s = now - vote_.at_s;
  const auto steps = static_cast<double>(taken - vote_.taken);
  const bool asked = vote_.next > 0 && passed_s > 0;  // before
  const double apart = asked ? kAskEverySeconds * steps / passed_s : 1;
  std::vector<double> votes{options_.stopped() ? 1.0 : 0.0,
                            rank_.rank() == 0 ? std::clamp(apart, 1.0, kMostSteps) : 0.0};
  sum_over_ranks(rank_.peers, votes);
  vote_ = {taken, taken + static_cast<std::uint64_t>(votes[1]), now};
  return votes[0] > 0;
}

bool Timetable::is_to_rest() const {
  if (!stops_with_checkpoint()) check_stopped();
  return options_.stopped && options_.stopped();
}

std::optional<std::uint64_t> Timetable::stops_at(Transport& present, std::uint64_t taken) const {
  if (!stops_with_checkpoint()) return {};
  bool stops = false;
  double furthest = 0;
  for (const std::vector<double>& row :
       all_rows(present, {options_.stopped() ? 1.0 : 0.0, static_cast<double>(taken)})) {
    stops = stops || row[0] > 0;
    furthest = std::max(furthest, row[1]);
  }
  return stops ? std::optional(static_cast<std::uint64_t>(furthest)) : std::nullopt;
}

}  // namespace lockstep
