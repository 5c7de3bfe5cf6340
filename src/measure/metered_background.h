// Counts what a rank's background jobs send and receive, as Metered does for its own lane. Jobs run
// beside the rank, so the ledger is copied out under a lock.
#pragma once

#include <mutex>

#include "measure/metered.h"
#include "transport/rank.h"

namespace lockstep {

class MeteredBackground final : public Background {
 public:
  MeteredBackground(Background& inner, int ranks) : inner_(inner), ledger_(ranks) {}

  std::uint64_t post(Job job) override {
    return inner_.post([this, job = std::move(job)](Transport& lane) {
      Metered metered(lane, ledger_, &guard_);
      job(metered);
    });
  }
  void wait(std::uint64_t number) override { inner_.wait(number); }
  void drain() override { inner_.drain(); }
  bool done(std::uint64_t number) override { return inner_.done(number); }

  Ledger ledger() const {
    std::lock_guard lock(guard_);
    return ledger_;
  }

 private:
  Background& inner_;
  mutable std::mutex guard_;
  Ledger ledger_;
};

}  // namespace lockstep
