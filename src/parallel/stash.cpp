#include "parallel/stash.h"

#include <algorithm>

namespace lockstep {
namespace {

// By how much the stash of the action's stage grows when it begins, and shrinks when it ends.
struct Change {
  Stash begins, ends;
};

Change change_of(const Action& action, bool recomputes) {
  switch (action.pass) {
    case StagePass::forward:
      return {{1, 1}, {recomputes ? 1 : 0, 0}};
    case StagePass::recompute:
      return {{1, 0}, {0, 0}};
    case StagePass::backward:
    case StagePass::backward_weights:
      return {{0, 0}, {1, 1}};
    case StagePass::backward_inputs:
      break;
  }
  return {};
}

}  // namespace

std::vector<Stash> stashes(const PipelineSchedule& schedule) {
  std::vector<Stash> most(schedule.stages);
  for (const auto& order : schedule.orders) {
    std::vector<Stash> now(static_cast<std::size_t>(schedule.replicas) * schedule.stages);
    for (const Action& action : order) {
      Stash& own = now[static_cast<std::size_t>(action.replica) * schedule.stages + action.stage];
      const Change change = change_of(action, schedule.recomputes);
      own.activations += change.begins.activations;
      own.inputs += change.begins.inputs;
      Stash& peak = most[action.stage];
      peak.activations = std::max(peak.activations, own.activations);
      peak.inputs = std::max(peak.inputs, own.inputs);
      own.activations -= change.ends.activations;
      own.inputs -= change.ends.inputs;
    }
  }
  return most;
}

std::vector<std::uint64_t> peak_stash_bytes(const PipelineSchedule& schedule,
                                            std::span<const StashBytes> by_stage) {
  std::vector<std::uint64_t> peaks;
  for (const auto& order : schedule.orders) {
    std::uint64_t now = 0, peak = 0;
    for (const Action& action : order) {
      const auto bytes = [&](const Stash& stash) {
        return stash.activations * by_stage[action.stage].activations +
               stash.inputs * by_stage[action.stage].inputs;
      };
      const Change change = change_of(action, schedule.recomputes);
      now += bytes(change.begins);
      peak = std::max(peak, now);
      now -= bytes(change.ends);
    }
    peaks.push_back(peak);
  }
  return peaks;
}

}  // namespace lockstep
