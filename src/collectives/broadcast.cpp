#include "collectives/broadcast.h"

#include <algorithm>

#include "collectives/tree_steps.h"

namespace lockstep {

void broadcast(Transport& transport, Tag tag, Values values, int root) {
  TreePlace tree = binomial_tree_from(root, transport);
  std::reverse(tree.children.begin(), tree.children.end());  // the longest way first
  Messages messages(transport, tag);
  send_down(messages, tree, values, Messages::kStart);
  messages.run();
}

}  // namespace lockstep
