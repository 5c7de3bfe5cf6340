// Who is who in a pipeline: which rank holds which stage of which replica of the network. A pure
// value, the same on all ranks. A rank has one role, or several where a worker holds several stages
// of a replica (interleaved, folded) or stages of two replicas (GEMS).
//
// The workers of replica 0 are ranks 0, 1, … in order, then come those of replica 1, and so on. A
// role's equals hold the same stage of the other replicas: among them a strategy averages, as it
// does among all ranks where a network has one stage.
#pragma once

#include <span>
#include <vector>

namespace lockstep {

struct Role {
  int replica = 0;
  int stage = 0;
  bool operator==(const Role&) const = default;
};

class Layout {
 public:
  // Every builder: UsageError says in one sentence why there can't be such a layout.

  // A stage a worker: rank = replica * stages + stage.
  static Layout grid(int replicas, int stages);
  // Worker k of K holds stages k, k + K, k + 2K, … (Narayanan et al., Efficient large-scale
  // language model training on GPU clusters, 2021). UsageError unless stages is a multiple of
  // workers.
  static Layout interleaved(int replicas, int stages, int workers);
  // There and back again: K workers hold 2K stages, stage p and stage 2K-1-p together.
  static Layout folded(int replicas, int stages);
  // Replicas 2i and 2i+1 share their workers and go in opposite directions: stage p of the second
  // is where stage K-1-p of the first is (Jain et al., GEMS, 2020). Of an odd number of stages the
  // middle worker holds the middle one twice. UsageError unless replicas are even.
  static Layout gems(int replicas, int stages);

  int replicas() const { return replicas_; }
  int stages() const { return stages_; }
  int ranks() const { return static_cast<int>(roles_.size()); }

  // In the order of replica, then stage. UsageError if there is no such rank.
  std::span<const Role> roles_of(int rank) const;
  // UsageError if there is no such role.
  int rank_of(Role) const;
  // The ranks that hold the role's stage, in the order of replicas, each once. A rank that holds it
  // for two replicas (see gems()) first averages those two itself; all its equals do, too.
  std::vector<int> equals(Role) const;
  // What the role's random streams go by (see rank_group.h). Distinct for all roles of the job, and
  // the rank where each rank has one role.
  int stream_of(Role) const;

  bool operator==(const Layout&) const = default;

 private:
  // `rank_of` tells the rank of every role.
  template <class RankOf>
  Layout(int replicas, int stages, int ranks, RankOf rank_of);

  std::size_t index_of(Role) const;

  int replicas_, stages_;
  std::vector<int> ranks_;                // by replica, then stage
  std::vector<std::vector<Role>> roles_;  // by rank
};

}  // namespace lockstep
