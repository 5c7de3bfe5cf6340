// How a worker process becomes a rank.
#pragma once

#include <exception>
#include <memory>

#include "cluster/start.h"
#include "transport/lanes.h"
#include "transport/rank.h"

namespace lockstep {

struct JobOptions {
  std::uint64_t seed = 1;
  double patience_seconds = kDefaultPatienceSeconds;  // of a wait for a peer
  double join_seconds = 60;                           // for all ranks to come
  bool goes_on = false;  // without ranks that die, so that they are nobody's reason to fail
  Lanes lanes = {};      // the same on all ranks
};

// This process ends with its launcher from here on, if it has one. For a program that does much
// before it joins. TransportError if the launcher is gone.
void follow_launcher(const Start&);

// One per process, and it belongs to the thread that makes it.
class Job {
 public:
  // Joins; returns when all ranks have joined and can reach each other. The process ends with its
  // launcher from here on. TransportError names the ranks that did not come.
  explicit Job(const Start&, const JobOptions& = {});
  // Without leave() or fail(), this rank failed: the coordinator is told, before the peers see it
  // leave.
  ~Job();

  Rank& rank();

  // In good order. Rank 0 of another launcher's job, which serves the coordinator, waits here until
  // all have left or died. rank() must not be used after it.
  void leave();
  // This rank gives up because of `error`; if that names a peer, the peer is blamed. `stops_all`:
  // the others must not go on either, even where they can do without ranks that die.
  void fail(const std::exception& error, bool stops_all = false);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace lockstep
