// Who talks to whom: pure functions of (rank, number of ranks m). REQUIRES 0 <= rank < m
// everywhere.
#pragma once

#include <vector>

namespace lockstep {

// The ring: r sends to r+1 and hears from r-1.
int ring_next(int rank, int m);
int ring_previous(int rank, int m);

// A rank's place in a rooted tree.
struct TreePlace {
  int parent = -1;            // -1: the root
  std::vector<int> children;  // in the order they are summed
  bool inner() const { return !children.empty(); }
};

// Parent (r-1)/2, children 2r+1 and 2r+2.
TreePlace binary_tree(int rank, int m);
// Parent: the rank without its lowest set bit. Children nearest first: the order of a reduction; a
// broadcast that starts with the largest subtree walks them backwards.
TreePlace binomial_tree(int rank, int m);

// Two trees that each carry half of the data: a rank that is inner in one is a leaf in the other
// (for odd m, exactly one rank is inner in both), so that both directions of every link are used.
struct DoubleTree {
  TreePlace first, second;
};
DoubleTree double_binary_tree(int rank, int m);

// The largest power of two <= m, for butterflies; the m - power ranks above it fold into a
// neighbour.
int power_below(int m);
// Of ranks r < 2(m - power) the even ones give their data to r+1 and drop out; the rest are
// renumbered.
struct Folded {
  int id = -1;       // place in the hypercube of `power` ranks, or -1: dropped out
  int partner = -1;  // who folds into me, or whom I fold into; -1: neither
};
Folded fold(int rank, int m);
// The rank that has this id in the hypercube: the inverse of fold(). REQUIRES 0 <= id <
// power_below(m).
int unfold(int id, int m);
// Whom `id` meets at distance `step` (a power of two).
int hypercube_partner(int id, int step);

}  // namespace lockstep
