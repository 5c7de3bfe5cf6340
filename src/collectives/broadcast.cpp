#include "collectives/broadcast.h"

#include <algorithm>

#include "collectives/tree.h"

namespace lockstep {
namespace {

// This rank's place in the binomial tree with this root.
TreePlace binomial_tree_from(int root, const Transport& transport) {
  const int m = transport.size();
  if (root < 0 || root >= m) throw UsageError(fmt::format("root {}: ranks are 0..{}", root, m - 1));
  TreePlace tree = binomial_tree((transport.rank() - root + m) % m, m);
  if (tree.parent != -1) tree.parent = (tree.parent + root) % m;
  for (int& child : tree.children) child = (child + root) % m;
  return tree;
}

}  // namespace

void broadcast(Transport& transport, Tag tag, Values values, int root) {
  TreePlace tree = binomial_tree_from(root, transport);
  std::reverse(tree.children.begin(), tree.children.end());  // the longest way first
  Messages messages(transport, tag);
  send_down(messages, tree, values, Messages::kStart);
  messages.run();
}

void reduce(Transport& transport, Tag tag, Values values, int root) {
  Messages messages(transport, tag);
  reduce_up(messages, binomial_tree_from(root, transport), values, transport.size());
  messages.run();
}

}  // namespace lockstep
