// A rank as a member of a group: chosen ranks of its job, in chosen order, on all its lanes. What
// is written against a Rank runs unchanged among them. Its peers are a Group; its background jobs
// and those of scores get a Group over their lane; clock, lock and seed are the rank's.
//
// Random streams go by `stream` and not by the number in the group, so that the same rank in two
// groups, and two ranks with the same number in theirs, never share one.
//
// A rank may be in several groups at once. They share its lanes: jobs of all of them run one after
// the other on a lane, and messages between the same two ranks match in the order they were sent.
// So groups that work at the same time take different background lanes, and those that take turns
// on a lane take the same turns on all ranks.
#pragma once

#include <vector>

#include "transport/group.h"
#include "transport/rank_view.h"

namespace lockstep {

class RankGroup {
 public:
  // The group's background lanes are those of `rank` from number `first_lane` on. UsageError as
  // Group, and if there is no such lane. `rank` outlives this and the group's jobs.
  RankGroup(const Rank& rank, const std::vector<int>& ranks, int stream, int first_lane = 0)
      : peers_(rank.peers, ranks),
        view_(rank, {.peers = &peers_, .stream = stream, .first_lane = first_lane},
              [&](Background& inner, int) {
                return std::make_unique<WrappedJobs>(
                    inner, [ranks](Transport& lane, const Background::Job& job) {
                      Group group(lane, ranks);
                      job(group);
                    });
              }) {}

  Rank& rank() { return view_.rank(); }

 private:
  Group peers_;
  RankView view_;
};

}  // namespace lockstep
