#include "measure/step_clock.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "collectives/gather.h"
#include "transport/channels.h"

namespace lockstep {
namespace {

// Of column i over the first so many rows.
double variance(const std::vector<std::vector<double>>& rows, std::size_t i, int count) {
  double mean = 0, squares = 0;
  for (int r = 0; r < count; ++r) mean += rows[r][i] / count;
  for (int r = 0; r < count; ++r) squares += (rows[r][i] - mean) * (rows[r][i] - mean);
  return count > 1 ? squares / (count - 1) : 0;
}

}  // namespace

Spent& Spent::operator+=(const Spent& other) {
  compute_s += other.compute_s;
  communicate_s += other.communicate_s;
  wait_s += other.wait_s;
  hidden_s += other.hidden_s;
  stalled_s += other.stalled_s;
  variance_s2 += other.variance_s2;
  return *this;
}

void StepClock::start() {
  now_ = {};
  now_.start = at_first(clock_.now());
}

void StepClock::ready() { now_.ready = at_first(clock_.now()); }

void StepClock::optimised(double since, double until) {
  if (now_.optimiser_s == 0) now_.optimiser_at = at_first(since);
  now_.optimiser_s += until - since;
}

void StepClock::backward(double since, double until) {
  now_.backward_at = at_first(since);
  now_.backward_s = until - since;
}

void StepClock::passed(PassSpan span) {
  span.start = at_first(span.start);
  span.end = at_first(span.end);
  now_.passes.push_back(span);
}

void StepClock::exchanged(std::span<const BucketSpan> spans) {
  for (BucketSpan span : spans) {
    span.start = at_first(span.start);
    span.end = at_first(span.end);
    if (span.start >= now_.start) now_.spans.push_back(span);
  }
}

void StepClock::end() {
  now_.end = at_first(clock_.now());
  training_s_ += now_.end - now_.start;
  open_.push_back(now_);
}

std::vector<TimedStep> StepClock::settle(Transport& peers) {
  std::vector<double> mine;  // when each step was ready, then how long each computed
  for (const TimedStep& step : open_) mine.push_back(step.ready);
  for (const TimedStep& step : open_) mine.push_back(step.compute_s());
  const auto all = all_rows(peers, mine);
  for (std::size_t i = 0; i < open_.size(); ++i) {
    TimedStep& step = open_[i];
    for (int r = 1; r < peers.size(); ++r)
      if (all[r][i] > all[step.last][i]) step.last = r;
    step.wait_s = all[step.last][i] - step.ready;
    spent_.variance_s2 += variance(all, open_.size() + i, workers_);
  }
  return settle();
}

std::vector<TimedStep> StepClock::settle() {
  for (TimedStep& step : open_) {
    step.wait_s = std::clamp(step.wait_s, 0.0, std::max(0.0, step.exchange_s()));
    spent_ += {step.compute_s(), step.exchange_s() - step.wait_s, step.wait_s + step.stalled_s};
    spent_.stalled_s += step.stalled_s;
  }
  return std::exchange(open_, {});
}

void StepClock::between_steps(double communicate_s, double wait_s) {
  training_s_ += communicate_s + wait_s;
  spent_ += {0, communicate_s, wait_s, 0};
}

void StepClock::restore(double training_s, const Spent& spent) {
  training_s_ = training_s;
  spent_ = spent;
}

void Stragglers::add(int last, double seconds) {
  if (seconds <= 0) return;
  by_rank.at(last).steps += 1;
  by_rank.at(last).seconds += seconds;
}

double Stragglers::total_s() const {
  double sum = 0;
  for (const Share& share : by_rank) sum += share.seconds;
  return sum;
}

std::optional<int> Stragglers::straggler(double worker_s) const {
  constexpr double kWorthNaming = 0.05;
  const double all = total_s();
  if (by_rank.size() < 2 || all <= kWorthNaming * worker_s) return {};
  const auto most = std::ranges::max_element(by_rank, {}, &Share::seconds);
  const double even = 1 / static_cast<double>(by_rank.size());
  if (most->seconds <= (1 + even) / 2 * all) return {};
  return static_cast<int>(most - by_rank.begin());
}

nlohmann::ordered_json to_json(const Stragglers& waited) {
  auto rows = nlohmann::ordered_json::array();
  for (const auto& share : waited.by_rank) rows.push_back({share.steps, share.seconds});
  return rows;
}

Stragglers stragglers_from(const nlohmann::json& json) {
  Stragglers waited;
  for (const auto& row : json) waited.by_rank.push_back({row.at(0), row.at(1)});
  return waited;
}

double clock_ahead_s(Transport& peers) {
  constexpr Tag kAsk = channels::kClockAsk, kTold = channels::kClockTold;
  constexpr int kTries = 8;
  bool one_host = true;
  for (int r = 0; r < peers.size(); ++r) one_host = one_host && peers.host_of(r) == 0;
  if (one_host) return 0;
  char ask = 0;
  double told = 0, ahead = 0, quickest = std::numeric_limits<double>::infinity();
  const int first = peers.rank() == 0 ? 1 : peers.rank();
  const int last = peers.rank() == 0 ? peers.size() - 1 : peers.rank();
  for (int r = first; r <= last; ++r) {
    for (int i = 0; i < kTries; ++i) {
      if (peers.rank() == 0) {
        peers.wait(peers.recv(r, kAsk, bytes_of(ask)));
        told = peers.now();
        peers.wait(peers.send(r, kTold, bytes_of(told)));
        continue;
      }
      const double sent = peers.now();
      peers.wait(peers.send(0, kAsk, bytes_of(ask)));
      peers.wait(peers.recv(0, kTold, bytes_of(told)));
      const double taken = peers.now() - sent;
      if (taken >= quickest) continue;
      quickest = taken;
      ahead = sent + taken / 2 - told;
    }
  }
  return ahead;
}

}  // namespace lockstep
