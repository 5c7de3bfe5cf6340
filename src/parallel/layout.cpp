#include "parallel/layout.h"

#include "core/error.h"

namespace lockstep {
namespace {

void require(bool ok, const char* layout, int replicas, int stages, const char* why) {
  if (!ok)
    throw UsageError(
        fmt::format("{} layout of {} replicas with {} stages: {}", layout, replicas, stages, why));
}

void require_some(const char* layout, int replicas, int stages) {
  require(replicas >= 1 && stages >= 1, layout, replicas, stages,
          "there must be 1 or more of each");
}

}  // namespace

template <class RankOf>
Layout::Layout(int replicas, int stages, int ranks, RankOf rank_of)
    : replicas_(replicas), stages_(stages), roles_(ranks) {
  for (int replica = 0; replica < replicas; ++replica)
    for (int stage = 0; stage < stages; ++stage) {
      ranks_.push_back(rank_of(Role{replica, stage}));
      roles_[ranks_.back()].push_back({replica, stage});
    }
}

Layout Layout::grid(int replicas, int stages) {
  require_some("a grid", replicas, stages);
  return {replicas, stages, replicas * stages,
          [&](Role r) { return r.replica * stages + r.stage; }};
}

Layout Layout::interleaved(int replicas, int stages, int workers) {
  require_some("an interleaved", replicas, stages);
  require(workers >= 1 && stages % workers == 0, "an interleaved", replicas, stages,
          "every worker must hold the same number of stages");
  return {replicas, stages, replicas * workers,
          [&](Role r) { return r.replica * workers + r.stage % workers; }};
}

Layout Layout::folded(int replicas, int stages) {
  require_some("a folded", replicas, stages);
  require(stages % 2 == 0, "a folded", replicas, stages,
          "the number of stages must be even, since every worker holds two");
  const int workers = stages / 2;
  return {replicas, stages, replicas * workers, [&](Role r) {
            return r.replica * workers + (r.stage < workers ? r.stage : stages - 1 - r.stage);
          }};
}

Layout Layout::gems(int replicas, int stages) {
  require_some("a GEMS", replicas, stages);
  require(replicas % 2 == 0, "a GEMS", replicas, stages,
          "the number of replicas must be even, since they share workers in pairs");
  return {replicas, stages, replicas / 2 * stages, [&](Role r) {
            return r.replica / 2 * stages + (r.replica % 2 == 0 ? r.stage : stages - 1 - r.stage);
          }};
}

std::size_t Layout::index_of(Role role) const {
  if (role.replica < 0 || role.replica >= replicas_ || role.stage < 0 || role.stage >= stages_)
    throw UsageError(fmt::format(
        "stage {} of replica {}: there are {} replicas with {} stages each, counted from 0",
        role.stage, role.replica, replicas_, stages_));
  return static_cast<std::size_t>(role.replica) * stages_ + role.stage;
}

std::span<const Role> Layout::roles_of(int rank) const {
  if (rank < 0 || rank >= ranks())
    throw UsageError(fmt::format("rank {} of a layout: ranks are 0..{}", rank, ranks() - 1));
  return roles_[rank];
}

int Layout::rank_of(Role role) const { return ranks_[index_of(role)]; }

std::vector<int> Layout::equals(Role role) const {
  std::vector<int> ranks;
  for (int replica = 0; replica < replicas_; ++replica)
    if (const int rank = rank_of({replica, role.stage}); ranks.empty() || ranks.back() != rank)
      ranks.push_back(rank);
  return ranks;
}

int Layout::stream_of(Role role) const { return static_cast<int>(index_of(role)); }

}  // namespace lockstep
