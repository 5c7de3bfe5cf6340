// Who is known to be gone from this job: dead, and why, or left in good order. One per rank's
// process; all its lanes look here, and whoever learns of an end (control connection, launcher, a
// transport that saw it) reports here. Dead and left are both told by somebody who knows; that a
// connection closed says neither. Thread-safe.
#pragma once

#include <atomic>
#include <limits>
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
  // From who keeps the job's book: the rank has left in good order. It said so to the keeper before
  // it closed anything.
  void report_left(int rank) { left_[rank].store(true, std::memory_order_release); }
  bool left(int rank) const { return left_[rank].load(std::memory_order_acquire); }
  // Who left before this moment (wall_now()) has been reported. Infinite where nobody keeps a book.
  void heard_until(double at) { heard_until_.store(at, std::memory_order_release); }
  double heard_until() const { return heard_until_.load(std::memory_order_acquire); }

  // The earliest reported death, or -1: the root cause when several go down together.
  int first() const { return first_.load(std::memory_order_acquire); }

  // Whom this rank will name when it leaves: who made a wait of any of its lanes fail last.
  void blame(Blame);
  Blame blame() const;

 private:
  std::vector<std::atomic<bool>> dead_, left_;
  std::atomic<double> heard_until_{std::numeric_limits<double>::infinity()};
  std::atomic<int> count_{0};
  std::atomic<int> first_{-1};
  mutable std::mutex mutex_;
  Blame blame_;
  std::vector<std::string> reasons_;
  int event_fd_;
};

}  // namespace lockstep
