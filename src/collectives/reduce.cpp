#include "collectives/reduce.h"

#include "collectives/tree_steps.h"

namespace lockstep {

void reduce(Transport& transport, Tag tag, Values values, int root) {
  Messages messages(transport, tag);
  reduce_up(messages, binomial_tree_from(root, transport), values, transport.size());
  messages.run();
}

}  // namespace lockstep
