#include "core/topology.h"

#include <gtest/gtest.h>

#include <set>

namespace lockstep {
namespace {

using Tree = std::vector<TreePlace>;

// Every rank hangs below one root, parents and children agree, and no chain is longer than `most`.
void expect_tree(const Tree& tree, int root, int most) {
  const int m = static_cast<int>(tree.size());
  for (int r = 0; r < m; ++r) {
    for (int child : tree[r].children) {
      ASSERT_TRUE(child >= 0 && child < m) << child << " of " << m;
      EXPECT_EQ(tree[child].parent, r) << "m=" << m;
    }
    int steps = 0, at = r;
    while (tree[at].parent != -1 && steps <= m) at = tree[at].parent, ++steps;
    EXPECT_EQ(at, root) << "m=" << m << " rank " << r;
    EXPECT_LE(steps, most) << "m=" << m << " rank " << r;
  }
  std::size_t edges = 0;
  for (const auto& place : tree) edges += place.children.size();
  EXPECT_EQ(edges, tree.size() - 1);
}

int log2_floor(int m) {
  int q = 0;
  while (m >>= 1) ++q;
  return q;
}

TEST(Topology, RingGoesRound) {
  EXPECT_EQ(ring_next(3, 4), 0);
  EXPECT_EQ(ring_previous(0, 4), 3);
  EXPECT_EQ(ring_next(0, 1), 0);
  EXPECT_EQ(ring_previous(0, 1), 0);
}

TEST(Topology, BinaryTree) {
  for (int m = 1; m <= 130; ++m) {
    Tree tree;
    for (int r = 0; r < m; ++r) tree.push_back(binary_tree(r, m));
    expect_tree(tree, 0, log2_floor(m));
  }
  EXPECT_EQ(binary_tree(1, 5).children, (std::vector{3, 4}));
  EXPECT_EQ(binary_tree(4, 5).parent, 1);
}

TEST(Topology, BinomialTree) {
  for (int m = 1; m <= 130; ++m) {
    Tree tree;
    for (int r = 0; r < m; ++r) tree.push_back(binomial_tree(r, m));
    expect_tree(tree, 0, log2_floor(m - 1) + 1);
  }
  EXPECT_EQ(binomial_tree(0, 8).children, (std::vector{1, 2, 4}));
  EXPECT_EQ(binomial_tree(6, 8).parent, 4);
}

TEST(Topology, DoubleTreesShareTheInnerWork) {
  for (int m = 1; m <= 130; ++m) {
    Tree first, second;
    int inner_in_both = 0;
    for (int r = 0; r < m; ++r) {
      auto [a, b] = double_binary_tree(r, m);
      inner_in_both += a.inner() && b.inner();
      EXPECT_LE(a.children.size(), 2u);
      first.push_back(a);
      second.push_back(b);
    }
    expect_tree(first, 0, log2_floor(m) + 1);
    expect_tree(second, m % 2 == 0 ? m - 1 : 1 % m, log2_floor(m) + 1);
    EXPECT_EQ(inner_in_both, m == 1 ? 0 : m % 2) << "m=" << m;
  }
}

TEST(Topology, DoubleTreeOfSixByHand) {
  EXPECT_EQ(double_binary_tree(4, 6).first.children, (std::vector{2, 5}));
  EXPECT_EQ(double_binary_tree(4, 6).first.parent, 0);
  EXPECT_EQ(double_binary_tree(2, 6).first.children, (std::vector{1, 3}));
  EXPECT_EQ(double_binary_tree(5, 6).second.children, (std::vector{1}));
}

TEST(Topology, FoldingLeavesAHypercube) {
  for (int m = 1; m <= 130; ++m) {
    const int p = power_below(m);
    EXPECT_LE(p, m);
    EXPECT_GT(2 * p, m);
    std::set<int> ids;
    for (int r = 0; r < m; ++r) {
      const Folded f = fold(r, m);
      if (f.partner != -1) {
        EXPECT_EQ(fold(f.partner, m).partner, r);
      }
      if (f.id == -1) {
        EXPECT_NE(fold(f.partner, m).id, -1) << "m=" << m;
        continue;
      }
      EXPECT_EQ(unfold(f.id, m), r);
      ids.insert(f.id);
    }
    EXPECT_EQ(static_cast<int>(ids.size()), p);
    EXPECT_EQ(*ids.rbegin(), p - 1);
  }
  EXPECT_EQ(hypercube_partner(hypercube_partner(5, 4), 4), 5);
}

}  // namespace
}  // namespace lockstep
