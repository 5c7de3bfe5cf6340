// Counts what a rank's background jobs send and receive, as Metered does for its own lane. Jobs run
// beside the rank, so the ledger is only touched under the rank's lock: none may be held by who
// calls anything here, or sends or receives in a job. The inner background and the lock outlive the
// jobs.
#pragma once

#include <memory>

#include "measure/metered.h"
#include "transport/rank.h"

namespace lockstep {

class MeteredBackground final : public Background {
 public:
  MeteredBackground(Background& inner, Lock& lock, int ranks)
      : inner_(inner), lock_(lock), ledger_(std::make_shared<Ledger>(ranks)) {}

  std::uint64_t post(Job job) override {
    used_ = true;
    return inner_.post([ledger = ledger_, &lock = lock_, job = std::move(job)](Transport& lane) {
      Metered metered(lane, *ledger, &lock);
      job(metered);
    });
  }
  void wait(std::uint64_t number) override { inner_.wait(number); }
  void drain() override { inner_.drain(); }
  bool done(std::uint64_t number) override { return inner_.done(number); }
  void ring() override { inner_.ring(); }

  Ledger ledger() const {
    if (!used_) return *ledger_;
    lock_.lock();
    Ledger copied = *ledger_;
    lock_.unlock();
    return copied;
  }

 private:
  Background& inner_;
  Lock& lock_;
  bool used_ = false;                     // else there is nothing to keep apart
  const std::shared_ptr<Ledger> ledger_;  // a job's too: one may outlive who posted it
};

}  // namespace lockstep
