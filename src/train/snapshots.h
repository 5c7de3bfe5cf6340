// When a run is scored whose workers go apart, without stopping anybody: of the living workers the
// one with the most samples sets the pace (the lowest of several). An epoch has as many steps as it
// needs for its own samples, so the epoch of a score is over for it when it has had all of them.
// Whenever a score is due by its own steps it takes a copy of its weights (and asks servers for the
// model, where they have it) and tells the other workers, who take a copy after their next step.
// The lowest worker that lives scores the copies on its lane of scores: see score_lane.h.
//
// What the run has come to is copied and scored when all have met. Where a run has an open end,
// nobody knows before that which meeting is the last, so what is due at any of them is scored so.
#pragma once

#include "train/announcement.h"
#include "train/score_lane.h"

namespace lockstep {

class Snapshots {
 public:
  explicit Snapshots(Session&);
  ~Snapshots();
  Snapshots(const Snapshots&) = delete;

  // On workers, before the first step after all have met.
  void go();
  // After each step of this worker. `may_be_last`: of the run, as far as this worker knows.
  void stepped(std::uint64_t taken, bool may_be_last);
  // After its last step before all meet.
  void rest();
  // Collective over all that are present, when all have met after that many steps of the pacemaker:
  // what was due is scored and kept. `over`: what the run has come to is written, which comes
  // first, and scored, unless it was `scored` before. A rank that is lost meanwhile stops nobody.
  void meet(std::uint64_t steps, bool over, bool scored);

 private:
  // Among the living, as far as this worker knows.
  std::vector<int> living() const;
  std::shared_ptr<const ScoreCopy> copy_of(std::uint64_t steps, bool paces);
  void put(std::uint64_t steps, bool paces);
  void become_scorer();
  // Where this worker is the scorer.
  void score_all(std::uint64_t steps, bool over, bool scored);
  void write(const ScoreLane::Gathered& last);
  void score(const ScoreLane::Gathered&);
  using Job = void (ScoreLane::*)(Transport&);
  std::optional<ScoreLane::Gathered> gathered_by(Job);
  void do_job(const std::function<void(ScoreLane&, Transport&)>&);
  void ring() { session_.rank().scoring->ring(); }

  Session& session_;
  Announcement due_;                        // a pacemaker's steps that are to be scored
  std::shared_ptr<ScoreLane> lane_;         // none: nothing is scored here
  std::uint64_t job_ = 0;                   // while it runs
  double loss_sum_ = 0, loss_samples_ = 0;  // in copies since all last met
  std::uint32_t left_out_ = 0;              // scores, by this worker as pacemaker
};

}  // namespace lockstep
