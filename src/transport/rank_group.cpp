#include "transport/rank_group.h"

namespace lockstep {

// The jobs of one lane.
class RankGroup::Jobs final : public Background {
 public:
  Jobs(Background& inner, std::shared_ptr<const std::vector<int>> ranks)
      : inner_(inner), ranks_(std::move(ranks)) {}

  std::uint64_t post(Job job) override {
    return inner_.post([ranks = ranks_, job = std::move(job)](Transport& lane) {
      Group group(lane, *ranks);
      job(group);
    });
  }
  void wait(std::uint64_t number) override { inner_.wait(number); }
  void ring() override { inner_.ring(); }

 private:
  Background& inner_;
  const std::shared_ptr<const std::vector<int>> ranks_;
};

RankGroup::RankGroup(const Rank& rank, std::vector<int> ranks, int stream, int first_lane)
    : ranks_(std::make_shared<const std::vector<int>>(std::move(ranks))),
      peers_(rank.peers, *ranks_),
      rank_{peers_,    rank.clock, add(rank.background_lane(first_lane)),
            rank.lock, rank.seed,  rank.scoring ? &add(*rank.scoring) : nullptr,
            {},        stream} {
  for (int lane = first_lane + 1; lane <= std::ssize(rank.further); ++lane)
    further_.push_back(&add(rank.background_lane(lane)));
  rank_.further = further_;
}

RankGroup::~RankGroup() = default;

RankGroup::Jobs& RankGroup::add(Background& inner) {
  return *jobs_.emplace_back(std::make_unique<Jobs>(inner, ranks_));
}

}  // namespace lockstep
