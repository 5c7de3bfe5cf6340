#include "parallel/stage_progress.h"

#include <algorithm>
#include <limits>

namespace lockstep {

StageProgress::StageProgress(int replicas, int stages, int micros, std::span<const StageLink> links)
    : stages_(stages), micros_(micros), into_(stages), out_(stages) {
  constexpr double kNotDone = std::numeric_limits<double>::infinity();
  ends_.assign(static_cast<std::size_t>(replicas) * stages * micros, {kNotDone, kNotDone});
  const auto add_link = [&](const StageLink& link) {
    into_[link.to].push_back(link);
    out_[link.from].push_back(link);
  };
  for (int stage = 1; stage < stages; ++stage) add_link({stage - 1, stage});
  for (const StageLink& link : links) add_link(link);
}

std::size_t StageProgress::index_of(const Action& action, int stage) const {
  return (static_cast<std::size_t>(action.replica) * stages_ + stage) * micros_ + action.micro;
}

double StageProgress::ready_s(const Action& action) const {
  const Ends& own = ends(action, action.stage);
  double ready_s = 0;
  switch (action.pass) {
    case StagePass::forward:
      for (const StageLink& link : into_[action.stage])
        ready_s = std::max(ready_s, ends(action, link.from).forward_s + link.message_s);
      return ready_s;
    case StagePass::recompute:
      return own.forward_s;
    case StagePass::backward_weights:
      return own.inputs_s;
    case StagePass::backward:
    case StagePass::backward_inputs:
      break;
  }
  ready_s = own.forward_s;
  for (const StageLink& link : out_[action.stage])
    ready_s = std::max(ready_s, ends(action, link.to).inputs_s + link.message_s);
  return ready_s;
}

void StageProgress::add(const Action& action, double end_s) {
  Ends& own = ends_[index_of(action, action.stage)];
  if (action.pass == StagePass::forward) own.forward_s = end_s;
  if (action.pass == StagePass::backward || action.pass == StagePass::backward_inputs)
    own.inputs_s = end_s;
}

}  // namespace lockstep
