// Double binary tree: two binary trees over the same ranks, each of which sums and sends out half
// of the vector. Almost every rank that is inner in one is a leaf in the other, so all links are
// busy both ways: about 2 log2 m rounds, and a rank sends at most 2N (Sanders, Speck, Träff:
// Two-tree algorithms for full bandwidth broadcast, reduction and scan, 2009; the trees are
// NCCL's).
#include "collectives/all_reduce.h"
#include "collectives/tree.h"

namespace lockstep {

void double_tree_all_reduce(Transport& transport, Tag tag, Values values) {
  const int m = transport.size();
  const auto [first, second] = double_binary_tree(transport.rank(), m);
  const Values left = values.part(chunk(values.count(), 2, 0));
  const Values right = values.part(chunk(values.count(), 2, 1));
  Messages messages(transport, tag);
  const auto left_up = reduce_up(messages, first, left, m);
  const auto right_up = reduce_up(messages, second, right, m);
  send_down(messages, first, left, left_up);
  send_down(messages, second, right, right_up);
  messages.run();
}

std::size_t double_tree_sent(std::size_t count, const Place& place, int rank) {
  const auto [first, second] = double_binary_tree(rank, place.ranks());
  return chunk(count, 2, 0).count * vectors_sent(first) +
         chunk(count, 2, 1).count * vectors_sent(second);
}

}  // namespace lockstep
