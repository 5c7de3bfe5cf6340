// Windows of ranks that are threads: plain memory that all of them see.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "transport/transport.h"

namespace lockstep {

class LoopbackWindow;
struct LoopbackMemory;

// All windows of one fabric, under one mutex. Thread-safe.
class LoopbackWindows {
 public:
  // `who` is the lane and outlives the window. Pretended hosts (Transport::host_of) are kept apart.
  std::unique_ptr<Window> open(Transport& who, int lane, std::size_t bytes,
                               std::span<const int> members);
  Window* at(Transport& who, int lane, const void* address);
  // Tells those who wait for it in a meeting.
  void leave(int rank, int lane);

 private:
  friend class LoopbackWindow;
  using Opening =
      std::pair<int, std::vector<int>>;  // lane and members, who may open many, in order

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<int, Opening>, int> opened_;  // (rank, opening) -> how many so far
  std::map<std::pair<Opening, int>, std::weak_ptr<LoopbackMemory>> memories_;
  std::map<int, std::vector<LoopbackWindow*>> open_;  // by rank
  std::set<std::pair<int, int>> left_;                // (rank, lane)
};

}  // namespace lockstep
