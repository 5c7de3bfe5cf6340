// Who is in the job, who left and who died of what: the coordinator's memory. No sockets and no
// clock here: time passes by tick(), so a coordinator that was itself stopped for a while blames
// nobody for it. Thread-safe.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "cluster/protocol_types.h"

namespace lockstep {

// A rank that gave up because of another.
struct Survivor {
  int rank = 0, blamed = 0;
  std::string reason;  // what it said
};

class Members {
 public:
  // Of leave().
  static constexpr int kWell = 0, kFailed = 1, kStopsAll = 2;
  static constexpr double kTickSeconds = 0.1;
  // A rank that has not been heard from for so long is taken for dead.
  static constexpr int kSilentTicks = 100;
  // How long a closed connection waits for the launcher's more precise reason.
  static constexpr int kClosedTicks = 4;
  // Of a member's sources.
  static constexpr int kMostSources = 64;

  explicit Members(int size);
  int size() const { return static_cast<int>(ranks_.size()); }

  // UsageError if the rank is not in 0..size-1, is taken, or if the worker counts another `size`.
  void join(const protocol::Member&, int size);
  // The second and the third round; UsageError if the addresses are too large.
  void offer(int rank, int memory_fd, const std::vector<std::string>& addresses);
  void ready(int rank);
  void heard_from(int rank);
  // kWell: in good order. kFailed: the rank gave up because of rank `blamed`, which makes it a
  // survivor, or by itself (-1), which makes it dead of `why`. kStopsAll: dead of `why`, and nobody
  // may go on without it, as if a survivor had blamed it.
  void leave(int rank, int status, int blamed, const std::string& why);
  // Its connection is gone: a death, unless it had left, and unless a better reason comes soon.
  void closed(int rank);
  // From who watches the process. Ignored for a rank that left or is known dead, unless all that is
  // known of its death is that its connection closed: then this is its reason from now on.
  void report_death(int rank, const std::string& reason);
  // From who watches the process, when it ended with status 0: a death only if it had not left.
  void report_end(int rank);
  void tick();

  // Deaths in the order they became known, without the first `known`: all of them.
  std::vector<protocol::Death> deaths(int known = 0) const;
  // What a rank does not know that knows of so many deaths and departures: as much as fits into one
  // reply.
  protocol::News news(int deaths, int departed) const;
  // In the order they gave up.
  std::vector<Survivor> survivors() const;
  // The ranks that have not finished this round: 1 join, 2 offer, 3 ready.
  std::vector<int> missing(int round = 1) const;
  // Members from rank `first` on, as many as fit into one reply. REQUIRES: none missing.
  std::vector<protocol::Member> page(int first) const;
  // Has every rank joined and then left or died?
  bool all_gone() const;

 private:
  enum class State { expected, joined, closed, left, dead };
  struct Entry {
    State state = State::expected;
    int round = 0;
    int ticks = 0;             // since last heard from; since it closed
    bool only_closed = false;  // how it died is not known
    protocol::Member member;
  };
  void bury(int rank, const std::string& reason);

  mutable std::mutex mutex_;
  std::vector<Entry> ranks_;
  std::vector<protocol::Death> deaths_;
  std::vector<int> departed_;  // in good order
  std::vector<Survivor> survivors_;
};

}  // namespace lockstep
