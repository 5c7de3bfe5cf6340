// The shared memory of one host's ranks: who is there, and a ring for each pair. The lowest rank of
// a host makes it; the others open it by that one's process id and descriptor. One object per
// process.
//
// Who died is told by the kernel: each rank holds a lock on its byte of the segment, which no way
// of dying keeps. A rank that leaves in good order says so first.
#pragma once

#include <fcntl.h>

#include <memory>
#include <mutex>
#include <vector>

#include "transport/deaths.h"
#include "transport/failure.h"
#include "transport/lanes.h"
#include "transport/shm/ring.h"
#include "transport/shm/shared_memory.h"
#include "transport/shm/waiting.h"

namespace lockstep {

struct ShmOptions {
  int rank = 0;
  std::vector<int> host_of;  // of every rank of the job
  double patience_seconds = 300;
  Lanes lanes = {};
};

// Where a rank sleeps, and how it left. One per (rank, lane), a cache line each.
struct alignas(64) ShmSeat {
  enum State : std::uint32_t { absent, present, left };
  std::atomic<std::uint32_t> state{absent};
  std::atomic<std::uint32_t> blamed{0};  // 1 + the rank, 0: nobody
  std::atomic<std::uint32_t> blamed_died{0};
  std::atomic<std::uint32_t> bell{0};  // changes when there is news for a sleeper
  std::atomic<std::uint32_t> asleep{0};
  // How many lanes the segment has: in its first seat, by the rank that made it.
  std::atomic<std::uint32_t> lanes{0};
};

class Window;
class ShmWindow;
class ShmWindows;
struct ShmMapping;

// The windows that the lanes of this process have open, so that each finds those of the others. See
// window.h here. Thread-safe.
class ShmOpenWindows {
 public:
  void add(ShmWindow&);
  void remove(ShmWindow&);
  // The window that holds this address of this rank, as `lane` uses it, or nullptr.
  Window* at(const void* address, ShmWindows& lane) const;
  // Its memory, or nullptr.
  std::shared_ptr<const ShmMapping> holding(const void* address) const;
  // The memory among which `peer` offered its own by this descriptor of its process, or nullptr.
  std::shared_ptr<const ShmMapping> offered_by(int peer, int pid, int fd) const;

 private:
  template <class Is>
  ShmWindow* first(Is is) const;  // nullptr: none is

  mutable std::mutex mutex_;
  std::vector<ShmWindow*> open_;
};

class ShmHost {
 public:
  // `deaths` outlives this.
  ShmHost(const ShmOptions&, Deaths& deaths);  // the host's lowest rank
  // The others. UsageError if they ask for other lanes than the lowest rank.
  ShmHost(const ShmOptions&, Deaths& deaths, int leader_pid, int leader_fd);

  // To be given to the other ranks of this host, with getpid().
  int fd() const { return memory_.fd(); }

  const ShmOptions& options() const { return options_; }
  const std::vector<int>& locals() const { return locals_; }  // ranks of this host, ascending
  bool crowded() const { return crowded_; }
  bool sleeper_pays() const { return sleeper_pays_; }  // see waiting.h
  Deaths& deaths() const { return deaths_; }
  ShmOpenWindows& windows() { return windows_; }

  ShmRing& ring(int lane, int from, int to) const;  // job-wide ranks, both of this host
  ShmSeat& seat(int lane, int rank) const;

  int rank() const { return options_.rank; }

  // Asks the kernel who of this host is gone without having left, and reports it. A few us.
  void look_for_deaths();

 private:
  ShmHost(const ShmOptions&, Deaths& deaths, SharedMemory memory);
  struct flock life_of(int rank) const;  // the lock that it holds while it lives
  int local_index(int rank) const;

  const ShmOptions options_;
  Deaths& deaths_;
  std::vector<int> locals_;
  bool crowded_;
  const bool sleeper_pays_ = lockstep::sleeper_pays();
  SharedMemory memory_;
  std::size_t rings_at_ = 0;
  ShmOpenWindows windows_;
};

// What a rank of `host` that waits for `peer` is told about its end.
TransportError shm_gone(const ShmHost& host, const ShmSeat& peers_seat, int peer, Tag tag);

}  // namespace lockstep
