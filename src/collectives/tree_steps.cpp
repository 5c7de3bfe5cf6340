#include "collectives/tree_steps.h"

namespace lockstep {

Messages::Step reduce_up(Messages& messages, const TreePlace& tree, Values values, int ranks) {
  const bool root = tree.parent == -1;
  const auto up = messages.fold(tree.children, values, root ? ranks : 0);
  return root ? up : messages.send(tree.parent, values, up);
}

void send_down(Messages& messages, const TreePlace& tree, Values values, Messages::Step up) {
  const auto down = tree.parent == -1 ? up : messages.take(tree.parent, values, up);
  for (const int child : tree.children) messages.send(child, values, down);
}

std::size_t vectors_sent(const TreePlace& tree) {
  return tree.children.size() + (tree.parent != -1);
}

TreePlace binomial_tree_from(int root, const Transport& transport) {
  const int m = transport.size();
  if (root < 0 || root >= m) throw UsageError(fmt::format("root {}: ranks are 0..{}", root, m - 1));
  TreePlace tree = binomial_tree((transport.rank() - root + m) % m, m);
  if (tree.parent != -1) tree.parent = (tree.parent + root) % m;
  for (int& child : tree.children) child = (child + root) % m;
  return tree;
}

}  // namespace lockstep
