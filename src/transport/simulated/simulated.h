// The simulated world: n ranks as SimGrid actors on a modelled network, in virtual time. The same
// bodies as over real transports; the same cluster gives the same virtual times and bits, always.
//
// Every choice that depends on arrival is settled by virtual time, ties by the order of the ranks'
// calls. All actors share one thread: hold no mutex and no thread-local state across a call that
// may pass time. One simulation a process: a second call is a UsageError; fork for more.
#pragma once

#include <cstdint>
#include <vector>

#include "transport/fabric.h"

namespace lockstep {

// What a simulated cluster is made of. All times are virtual seconds.
struct SimulatedCluster {
  int ranks = 2;
  int ranks_per_host = 1;  // rank r lives on host r / ranks_per_host;
  int guests = 0;          // of which the last so many live with ranks 0, 1, …

  // Between hosts. Each has a full-duplex line to its switch; M bytes from host to host take
  // latency_s + M / bandwidth_bytes_per_s when nobody else is sending, and flows share lines
  // fairly.
  double bandwidth_bytes_per_s = 1.25e9;
  double latency_s = 50e-6;
  // 0: a star, one switch for all. Else a tree: so many hosts a switch, and each switch's line to
  // the root (up and down) carries hosts_per_rack * bandwidth / oversubscription.
  int hosts_per_rack = 0;
  double oversubscription = 1;

  // Between ranks of one host, by message or by window. Each pair has all of it to itself: cores
  // copy side by side.
  double local_bandwidth_bytes_per_s = 10e9;
  double local_latency_s = 1e-6;

  Lanes lanes = {};

  std::uint64_t seed = 1;
  double patience_s = kDefaultPatienceSeconds;
  // Windows have a size and no memory, for networks that would not fit.
  bool hollow_windows = false;

  // Rank `rank` stops at `at_s`, like a process that is killed: what it had under way is lost.
  struct Death {
    int rank;
    double at_s;
  };
  std::vector<Death> deaths;

  int host_of(int rank) const {
    const int host = rank < ranks - guests ? rank : rank - (ranks - guests);
    return host / ranks_per_host;
  }
  int hosts() const { return host_of(ranks - guests - 1) + 1; }
};

// UsageError if there can't be such a cluster.
void check(const SimulatedCluster&);

// Returns when all ranks have returned or died. If any threw, the error that came first in virtual
// time is thrown here. UsageError as check(). InternalError says who waits for what if the
// simulation can't go on.
void run_simulated(const SimulatedCluster&, const Body&);

}  // namespace lockstep
