// Binary tree: parent (r-1)/2, children 2r+1 and 2r+2. Each rank adds its first child's sum, then
// its second's, and passes the result up; the total comes down the same way. 2 floor(log2 m)
// message rounds; a leaf sends N, an inner rank N and N for each child, the root N for each child:
// at most 3N. Good for small vectors; long ones are pipelined, and then each link carries N each
// way.
#include "collectives/tree.h"

#include "collectives/all_reduce.h"

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

void tree_all_reduce(Transport& transport, Tag tag, Values values) {
  const int m = transport.size();
  const TreePlace tree = binary_tree(transport.rank(), m);
  Messages messages(transport, tag);
  const auto up = reduce_up(messages, tree, values, m);
  send_down(messages, tree, values, up);
  messages.run();
}

std::size_t tree_sent(std::size_t count, const Place& place, int rank) {
  return count * vectors_sent(binary_tree(rank, place.ranks()));
}

}  // namespace lockstep
