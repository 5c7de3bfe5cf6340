// Scores of a run whose workers go apart, without stopping anybody: of the living workers the one
// with the most samples sets the pace (the lowest of several). An epoch has as many steps as it
// needs for its own samples, so the epoch of a score is over for it when it has had all of them.
// Whenever a score is due by its own steps it keeps a copy of its weights (and asks servers for the
// model, where they have it) and tells the other workers, who keep a copy after their next step.
// The copies are scored when training is over; until then they take the memory of the weights each.
#pragma once

#include <map>
#include <vector>

#include "train/evaluate.h"
#include "train/session.h"

namespace lockstep {

class Snapshots {
 public:
  explicit Snapshots(Session& session) : session_(session) {}

  // After each step of this worker.
  void stepped(std::uint64_t taken);
  // Collective over the workers, when all have met: scores those kept since the last call.
  void score_kept();
  // Collective over the workers: scores what the run has come to.
  void score_last();
  // What the run has come to.
  Model last_model();

 private:
  struct Kept {
    std::uint64_t steps = 0;  // of the worker that sets the pace
    double training_s = 0;    // of this worker
    std::vector<float> own, statistics;
    bool elsewhere = false;    // the model is not the workers' mean;
    std::vector<float> model;  // one worker has it
    double mass = 0;
    std::uint64_t samples = 0;  // of this worker so far: its statistics have not been common since
    double loss_sum = 0, loss_samples = 0, bytes = 0;
  };

  struct Told {
    std::uint64_t steps, elsewhere;
  };

  // Among the living, as far as this worker knows.
  bool sets_pace() const;
  // Among the workers that have met: its place in workers().
  int pacemaker() const;
  void tell(Told);
  void take_told();
  Kept copied(std::uint64_t steps, bool with_model);
  // With the loss and bytes, which are counted since the last call.
  Kept counted(std::uint64_t steps, bool with_model);
  Model mean_of(const Kept&, bool central);
  void score(const Kept&);

  Session& session_;
  std::map<std::uint64_t, Kept> kept_;  // by steps
};

}  // namespace lockstep
