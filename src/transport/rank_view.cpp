#include "transport/rank_view.h"

namespace lockstep {

RankView::RankView(const Rank& rank, const Changes& changes, const Wrap& wrap)
    : rank_(changed(rank, changes, wrap)) {}

Rank RankView::changed(const Rank& rank, const Changes& changes, const Wrap& wrap) {
  // Names every part: where Rank gets another one, this does not compile until it is dealt with.
  const auto& [peers, clock, background, lock, seed, scoring, further, stream] = rank;
  const auto lane = [&](Background& inner, int number) {
    auto made = wrap ? wrap(inner, number) : nullptr;
    return made ? wrapped_.emplace_back(std::move(made)).get() : &inner;
  };
  Background* const first = lane(rank.background_lane(changes.first_lane), 0);
  for (int number = changes.first_lane + 1; number <= std::ssize(further); ++number)
    further_.push_back(lane(rank.background_lane(number), number - changes.first_lane));
  return {changes.peers ? *changes.peers : peers,
          changes.clock ? *changes.clock : clock,
          *first,
          changes.lock ? *changes.lock : lock,
          seed,
          scoring ? lane(*scoring, kScoring) : nullptr,
          further_,
          changes.stream ? changes.stream : stream};
}

}  // namespace lockstep
