// Binary tree: parent (r-1)/2, children 2r+1 and 2r+2. Each rank adds its first child's sum, then
// its second's, and passes the result up; the total comes down the same way. 2 floor(log2 m)
// message rounds; a leaf sends N, an inner rank N and N for each child, the root N for each child:
// at most 3N. Good for small vectors; long ones are pipelined, and then each link carries N each
// way.
#include "collectives/all_reduce.h"
#include "collectives/tree_steps.h"

namespace lockstep {

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
