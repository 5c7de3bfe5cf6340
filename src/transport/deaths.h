// Who is known dead in this job, and why. One per rank's process; all its lanes look here, and
// whoever learns of a death (control connection, launcher, a transport that saw it) reports here.
// Thread-safe.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "transport/failure.h"

namespace lockstep {

class Deaths {
 public:
  explicit Deaths(int ranks);
  ~Deaths();
  Deaths(const Deaths&) = delete;

  // The first reason for a rank wins. `reason` completes "rank 3 died: …".
  void report(int rank, const std::string& reason);
  bool dead(int rank) const { return dead_[rank].load(std::memory_order_acquire); }
  std::vector<int> list() const;
  // Changes with every report: compare to see news without a lock.
  int count() const { return count_.load(std::memory_order_acquire); }
  std::string reason(int rank) const;
  // Readable after a report: for a poll() beside other descriptors. Never read it: it stays
  // readable.
  int event_fd() const { return event_fd_; }
  // The earliest reported death, or -1: the root cause when several go down together.
  int first() const { return first_.load(std::memory_order_acquire); }

  // Whom this rank will name when it leaves: who made a wait of any of its lanes fail last.
  void blame(Blame);
  Blame blame() const;

 private:
  std::vector<std::atomic<bool>> dead_;
  std::atomic<int> count_{0};
  std::atomic<int> first_{-1};
  mutable std::mutex mutex_;
  Blame blame_;
  std::vector<std::string> reasons_;
  int event_fd_;
};

}  // namespace lockstep
