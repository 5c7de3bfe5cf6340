// The one place where the golden matrix touches what makes and drives a strategy (Crew, Strategy,
// RoundStrategy, the audit, the registry). Where those change, adapter.cpp follows; cases,
// recording and comparing stay as they are, and so do the recorded values.
//
// A job is a short training on toy replicas. Its gradients are w - x, with an x for each (worker,
// step, parameter) that has many digits, so that another order of operands or another operation
// shows. All arithmetic is single IEEE operations: no machine gives other bits.
#pragma once

#include <string>
#include <vector>

#include "measure/ledger.h"
#include "recorded.h"
#include "transport/rank.h"

namespace lockstep::golden {

// What the cases need to know of a row of the registry.
struct Kind {
  std::string name;
  bool has_servers = false;
  bool in_step = true;       // the same bits on threads; else in simulation alone
  bool has_manager = false;  // one server, that is no choice
  bool has_collective = false;
};
std::vector<Kind> kinds();

enum class Samples { even, uneven, idle };  // idle: worker 1 has none in any step

struct Job {
  std::string spec;
  int workers = 1, servers = 0;
  bool colocated = false;
  std::string collective = "ring";
  Samples samples = Samples::even;
  bool audited = false;
  bool hollow = false;   // replicas have sizes and no data
  bool windows = false;  // replicas lie in memory that the peers map
  bool one_host = false;
  std::size_t count = 997;
  int steps = 12;
};

// Ranks that the job runs on; so many of them, the last, live on the hosts of the first.
int ranks_of(const Job&);
int guests_of(const Job&);

// What one rank of a job came to.
struct OnRank {
  std::uint64_t weights = 0;  // at the end
  std::uint64_t path = 0;     // after each step
  std::uint64_t model = 0;    // what the run would score and save
  std::uint64_t kept = 0;     // numbers that the strategy keeps for a checkpoint, with their names
  std::string state;          // text that it keeps for a checkpoint
  double mass = 0;            // what its statistics and weights count for
  std::uint64_t contributions = 0, contributed = 0;  // how many; what they were
  std::uint64_t merged = 0, withheld = 0;            // sends
  Ledger moved = Ledger(0);                          // on all lanes
  std::vector<double> at_s;                          // after each step, and at the end
  double waited_s = 0, hidden_s = 0;
};

// One rank's part. Throws what the strategy throws: UsageError where it refuses.
OnRank run(const Job&, Rank&);

}  // namespace lockstep::golden
