#include "core/topology.h"

#include <bit>

namespace lockstep {

int ring_next(int rank, int m) { return (rank + 1) % m; }
int ring_previous(int rank, int m) { return (rank + m - 1) % m; }

TreePlace binary_tree(int rank, int m) {
  TreePlace place;
  if (rank > 0) place.parent = (rank - 1) / 2;
  for (int child = 2 * rank + 1; child <= 2 * rank + 2 && child < m; ++child)
    place.children.push_back(child);
  return place;
}

TreePlace binomial_tree(int rank, int m) {
  TreePlace place;
  if (rank > 0) place.parent = rank & (rank - 1);
  for (int bit = 1; (rank == 0 || bit < (rank & -rank)) && rank + bit < m; bit *= 2)
    place.children.push_back(rank + bit);
  return place;
}

namespace {

// The first of the two trees, as in NCCL: odd ranks are leaves, and a rank's height is its lowest
// set bit.
TreePlace bit_tree(int rank, int m) {
  TreePlace place;
  if (rank == 0) {
    if (m > 1) place.children.push_back(power_below(m - 1));
    return place;
  }
  const int bit = rank & -rank;
  place.parent = (rank ^ bit) | (2 * bit);
  if (place.parent >= m) place.parent = rank ^ bit;
  if (bit == 1) return place;
  place.children.push_back(rank - bit / 2);
  int offset = bit / 2;
  while (offset > 0 && rank + offset >= m) offset /= 2;
  if (offset > 0) place.children.push_back(rank + offset);
  return place;
}

}  // namespace

DoubleTree double_binary_tree(int rank, int m) {
  // The second tree renames the ranks of the first: mirrored, or shifted by one where m is odd.
  const auto renamed = [m](int r) { return m % 2 == 0 ? m - 1 - r : (r + m - 1) % m; };
  const auto name_back = [m](int r) { return m % 2 == 0 ? m - 1 - r : (r + 1) % m; };
  DoubleTree trees{bit_tree(rank, m), bit_tree(renamed(rank), m)};
  if (trees.second.parent != -1) trees.second.parent = name_back(trees.second.parent);
  for (int& child : trees.second.children) child = name_back(child);
  return trees;
}

int power_below(int m) { return static_cast<int>(std::bit_floor(static_cast<unsigned>(m))); }

Folded fold(int rank, int m) {
  const int extra = m - power_below(m);
  if (rank >= 2 * extra) return {rank - extra, -1};
  if (rank % 2 == 0) return {-1, rank + 1};
  return {rank / 2, rank - 1};
}

int unfold(int id, int m) {
  const int extra = m - power_below(m);
  return id < extra ? 2 * id + 1 : id + extra;
}

int hypercube_partner(int id, int step) { return id ^ step; }

}  // namespace lockstep
