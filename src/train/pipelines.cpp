#include "train/pipelines.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace lockstep {

std::vector<int> Pipelines::ranks_of(int pipeline) const {
  std::vector<int> ranks(schedule.workers);
  std::iota(ranks.begin(), ranks.end(), pipeline * schedule.workers);
  return ranks;
}

std::vector<int> Pipelines::stages_of(int rank) const {
  const Layout layout = schedule.layout();
  std::set<int> stages;
  for (const Role role : layout.roles_of(worker_of(rank))) stages.insert(role.stage);
  return {stages.begin(), stages.end()};
}

std::vector<int> Pipelines::equals_of(int rank) const {
  std::vector<int> ranks =
      schedule.layout(count).equals({.replica = 0, .stage = stages_of(rank).front()});
  std::ranges::sort(ranks);
  return ranks;
}

}  // namespace lockstep
