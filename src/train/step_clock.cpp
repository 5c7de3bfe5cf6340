#include "train/step_clock.h"

#include <algorithm>
#include <limits>

#include "train/gather.h"

namespace lockstep {

Spent& Spent::operator+=(const Spent& other) {
  compute_s += other.compute_s;
  communicate_s += other.communicate_s;
  wait_s += other.wait_s;
  return *this;
}

void StepClock::start() {
  start_ = clock_.now();
  optimiser_s_ = 0;
}

void StepClock::ready() { ready_ = clock_.now(); }

void StepClock::end() {
  const double end = clock_.now();
  training_s_ += end - start_;
  open_.push_back({ready_ - ahead_s_, ready_ - start_ + optimiser_s_, end - ready_ - optimiser_s_});
}

void StepClock::settle(Transport& peers) {
  std::vector<double> ready;
  for (const Stamped& step : open_) ready.push_back(step.ready);
  const auto all = all_rows(peers, ready);
  for (std::size_t i = 0; i < open_.size(); ++i) {
    double last = 0;
    for (const auto& row : all) last = std::max(last, row[i]);
    const Stamped& step = open_[i];
    const double wait = std::clamp(last - step.ready, 0.0, std::max(0.0, step.exchange_s));
    spent_ += {step.compute_s, step.exchange_s - wait, wait};
  }
  open_.clear();
}

void StepClock::restore(double training_s, const Spent& spent) {
  training_s_ = training_s;
  spent_ = spent;
}

void TimedReplica::apply_gradients(std::uint64_t step, Slice part) {
  const double start = clock_.now();
  inner_.apply_gradients(step, part);
  steps_.optimised(clock_.now() - start);
}

double clock_ahead_s(Transport& peers) {
  constexpr Tag kAsk{Purpose::control, 0x104}, kTold{Purpose::control, 0x105};
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
