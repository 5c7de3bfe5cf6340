// When a run is scored whose workers go apart, without stopping anybody: of the living workers the
// one with the most samples sets the pace (the lowest of several). An epoch has as many steps as it
// needs for its own samples, so the epoch of a score is over for it when it has had all of them.
// Whenever a score is due by its own steps it takes a copy of its weights (and asks servers for the
// model, where they have it) and tells the other workers, who take a copy after their next step.
// The lowest worker that lives scores the copies on its lane of scores: see score_lane.h.
#pragma once

#include "train/score_lane.h"

namespace lockstep {

class Snapshots {
 public:
  explicit Snapshots(Session&);
  ~Snapshots();
  Snapshots(const Snapshots&) = delete;

  // On workers, before the first step after all have met.
  void go();
  // After each step of this worker. `more`: it takes another one.
  void stepped(std::uint64_t taken, bool more);
  // After its last step before all meet.
  void rest();
  // Collective over all that are present, when all have met: what was due is scored and kept.
  // `over`: so is what the run has come to, unless it was `scored` before; and it is written. A
  // rank that is lost meanwhile stops nobody.
  void meet(bool over, bool scored);

 private:
  // Among the living, as far as this worker knows.
  std::vector<int> living() const;
  bool is_living(int rank) const;
  void tell(std::uint64_t steps);
  void take_told();
  std::shared_ptr<const ScoreCopy> copy_of(std::uint64_t steps, bool paces);
  void put(std::uint64_t steps, bool paces);
  void become_scorer();
  // Where this worker is the scorer.
  void score_all(bool over, bool scored);
  void score_gathered();
  void do_job(const std::function<void(ScoreLane&, Transport&)>&);
  void ring() { session_.rank().scoring->ring(); }

  Session& session_;
  std::shared_ptr<ScoreLane> lane_;         // none: nothing is scored here
  std::uint64_t job_ = 0;                   // while it runs
  double loss_sum_ = 0, loss_samples_ = 0;  // in copies since all last met
};

}  // namespace lockstep
