#include "transport/rank_group.h"

namespace lockstep {

RankGroup::RankGroup(const Rank& rank, std::vector<int> ranks, int stream, int first_lane)
    : peers_(rank.peers, ranks),
      view_(rank, {.peers = &peers_, .stream = stream, .first_lane = first_lane},
            [&](Background& inner, int) {
              return std::make_unique<WrappedJobs>(
                  inner, [ranks](Transport& lane, const Background::Job& job) {
                    Group group(lane, ranks);
                    job(group);
                  });
            }) {}

}  // namespace lockstep
