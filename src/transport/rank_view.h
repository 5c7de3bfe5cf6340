// A rank with some of its parts replaced. Whatever wraps a Rank (a group, decorators on all its
// lanes) is made with this, so that no part of it is lost on the way.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "transport/rank.h"

namespace lockstep {

// Jobs of a lane below, which see it as `run` shows it to them.
class WrappedJobs : public Background {
 public:
  // Called on the lane: runs the job. Jobs own it too: one may outlive whoever posted it.
  using Run = std::function<void(Transport& lane, const Job&)>;
  WrappedJobs(Background& inner, Run run) : inner_(inner), run_(std::move(run)) {}

  std::uint64_t post(Job job) override {
    return inner_.post([run = run_, job = std::move(job)](Transport& lane) { run(lane, job); });
  }
  void wait(std::uint64_t number) override { inner_.wait(number); }
  void ring() override { inner_.ring(); }

 private:
  Background& inner_;
  const Run run_;
};

class RankView {
 public:
  // What takes the place of the rank's own; what is empty stays as it is.
  struct Changes {
    Transport* peers = nullptr;
    Clock* clock = nullptr;
    Lock* lock = nullptr;
    std::optional<int> stream = {};
    int first_lane = 0;  // background lanes before this one are left out
  };
  // What takes the place of background lane `number` of the view, or of the lane of scores
  // (kScoring); null, or no such function: nothing does.
  static constexpr int kScoring = -1;
  using Wrap = std::function<std::unique_ptr<Background>(Background& inner, int number)>;

  // `rank` and all that is given outlive this. UsageError if there is no `first_lane`.
  RankView(const Rank& rank, const Changes&, const Wrap& = {});
  RankView(const RankView&) = delete;

  Rank& rank() { return rank_; }

 private:
  Rank changed(const Rank&, const Changes&, const Wrap&);

  std::vector<std::unique_ptr<Background>> wrapped_;
  std::vector<Background*> further_;
  Rank rank_;
};

}  // namespace lockstep
