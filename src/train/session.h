// One rank's part of a run: its learner, strategy, clocks and records, and what every training loop
// does with them. The loops differ in who waits for whom: worker.cpp (together), apart.cpp,
// rounds.cpp.
//
// Calls marked collective are made by all ranks that are present(), in the same order.
#pragma once

#include <optional>

#include "measure/machine.h"
#include "measure/metered.h"
#include "measure/metered_background.h"
#include "train/evaluate.h"
#include "train/moved.h"
#include "train/profiler.h"
#include "train/progress_log.h"
#include "train/recorder.h"
#include "train/run_end.h"
#include "train/worker.h"
#include "transport/group.h"

namespace lockstep {

class Session {
 public:
  Session(Rank& world, const Experiment&, const WorkerOptions&);

  // Collective. Weights are in place, the same everywhere or those of the checkpoint. Returns the
  // first step to take.
  std::uint64_t start();
  // One optimisation step of this worker: gradients of its samples, then the strategy's turn.
  void take(std::uint64_t step);
  // The same on a batch of the task that the learner has open. Returns its mean loss.
  double take_of_task(const Step&, std::size_t batch);
  // Of a server: serves the steps from `first` up to `end`, or fewer where ranks go apart and are
  // told to stop;
  void serve(std::uint64_t first, std::uint64_t end);
  // and notes them, once it is known how many they were.
  void served(std::uint64_t first, std::uint64_t end);
  // Is the run over before this step? Collective where ranks go together; else of this worker.
  bool is_over(std::uint64_t step) { return end_.is_over(step); }
  // Of these workers, which are ranks of the job, the one by whose steps a run is scored whose
  // ranks go apart: with the most samples in an epoch, the first of several.
  int pacemaker(const std::vector<int>& workers) const { return pacemaker_(workers); }
  using Pacemaker = std::function<int(const std::vector<int>& workers)>;
  // The same for any thread, also when this is gone.
  const Pacemaker& pacemaker() const { return pacemaker_; }
  // This many steps were the last: of each worker, or of the pacemaker where they ended apart.
  void end_at(std::uint64_t step) { last_step_ = step; }
  std::uint64_t last_step() const { return last_step_; }  // kOpenEnd: not known yet
  // Where ranks go apart: this rank rests until all have met. Collective over those that are left.
  // Returns how long it waited.
  double rest();
  // Where ranks go apart. Collective over those present(), who meet after `taken` steps where
  // `end` were due. True: the run is over.
  bool meets_at_the_end(std::uint64_t taken, std::uint64_t end);
  // Throws Stopped if this rank is told to stop.
  void check_stopped() const;
  // Collective where ranks keep in step, before the step that follows `taken`: throws Stopped if
  // this rank is told to stop; where checkpoints are on, if any is, after writing one.
  void check_stopped(std::uint64_t taken);
  // Where ranks go apart, before each step: is this rank to rest, so that all can write a
  // checkpoint and stop? Throws Stopped if there are none.
  bool is_to_rest() const;
  // Collective over those present, when all rest: has any been told to stop? Then up to which step
  // all of them go on, the furthest that a worker has come; else nothing.
  std::optional<std::uint64_t> stops_at(std::uint64_t taken);

  bool score_due(std::uint64_t taken);
  bool checkpoint_due(std::uint64_t taken) const;
  bool ends_epoch(std::uint64_t taken);
  // Collective, out of training time: what time went where, and how good the strategy's model is.
  void score(std::uint64_t taken);
  bool has_scored(std::uint64_t taken) const {
    return scored_at_ == taken || log_.has_scored(taken);
  }
  // Adds a score to the records, and tells of it where `publishes`. `samples`: those of all workers
  // before it.
  void keep(Score&, std::uint64_t samples, bool publishes);
  // Collective. All ranks wait for each other, however long that takes, so that nobody waits for
  // late ones when time or the transport's patience counts.
  void together();
  // Collective.
  void save(std::uint64_t taken);
  // What the run has come to. Nothing happens on ranks that don't lead.
  void write(const Model&);
  // Collective.
  WorkerOutcome finish();

  // Collective over those that are left: waits for all of them, and agrees on who they are. From
  // then on present() are they.
  void meet_the_living();
  // The lowest worker that is present.
  int first_worker();
  // Passes some time; messages on the rank's own lane arrive meanwhile.
  void doze(double seconds);
  std::unique_ptr<Examiner> open_examiner() {
    return make_torch_examiner(experiment, options_.turns);
  }
  const std::vector<int>& lost() const { return lost_; }

  // The ranks that take part, this one among them; the first of them keeps the records: a manager,
  // where there is one, else the lowest.
  Transport& present() { return meeting_ ? *meeting_ : rank_.peers; }
  // Those of them that work. On workers only.
  Transport& workers() { return *workers_; }
  bool leads() { return present().rank() == 0; }

  const Experiment& experiment;
  Rank& rank() { return rank_; }
  const Crew& crew() const { return crew_; }
  Strategy& strategy() { return *strategy_; }
  // REQUIRES: a strategy that goes apart.
  Apart& apart() { return *strategy_->parts().apart; }
  Learner& learner() { return *learner_; }
  Replica& replica() { return replica_; }
  StepClock& clock() { return clock_; }
  ProgressLog& log() { return log_; }
  Recorder& recorder() { return recorder_; }
  const Moved& moved() const { return moved_; }
  const RunFolder* folder() const { return options_.folder; }
  Watcher* watcher() { return leads() ? options_.watcher : nullptr; }

 private:
  std::unique_ptr<Learner> open_learner();
  // What the collective that was asked for stands for, for the records.
  const AllReduceRow& chosen_collective() const;
  std::unique_ptr<Strategy> make_strategy_of_run();
  // With the samples that each worker reads in it, which may be those of its team. What it returns
  // stays valid until the next call.
  Step step_at(std::uint64_t number);
  double take(const Step&, std::uint64_t taken, const std::function<double()>& compute);
  // Who has no samples waits for as long as a step takes: so an open end comes for it too, and
  // meanwhile it is in nobody's way.
  void sit_out();
  // The strategy's time beside the computation since the last call.
  double newly_hidden_s();
  // Those ranks, as present() has them.
  std::unique_ptr<Group> group_of(std::vector<int> ranks);
  std::uint64_t restore();
  // Collective over those present, in simulation: all leave it at the same instant, to the last
  // digits, whatever came before. So what follows a checkpoint takes the same times as what follows
  // a resume from it. Nothing else, where clocks differ anyway.
  void line_up();
  void restore_progress(const std::string& text, const std::string& path);
  bool stops_with_checkpoint() const;
  bool all_stop(std::uint64_t taken);
  void add_waits(TrainResult&);
  RankReport report();
  // Of the whole run, also where this is the second part of it.
  Contributions contributions() const;
  std::string host_name() const;

  const TrainConfig& config_;
  const WorkerOptions& options_;
  Moved moved_;
  Metered metered_;
  MeteredBackground background_, scoring_;
  Rank rank_;
  std::unique_ptr<Window> weights_, gradients_;
  std::unique_ptr<Learner> learner_;
  StepClock clock_;
  TimedReplica replica_;
  Crew crew_;
  std::unique_ptr<Strategy> strategy_;
  std::vector<int> lost_;
  std::unique_ptr<Group> meeting_;  // if some are lost, or the first is not rank 0
  std::optional<Group> workers_;
  Recorder recorder_;
  RunEnd end_;
  std::uint64_t last_step_, scored_at_ = 0;
  Plan plan_;
  const Pacemaker pacemaker_;
  std::vector<std::size_t> samples_;  // of the step last asked for, by worker
  Rng luck_;                          // of simulated compute times
  std::uint64_t of_tasks_ = 0;        // steps of this rank
  double own_step_s_ = 0;             // its last one with samples
  std::vector<Slice> ready_;          // parts of the gradients, not told to the strategy yet
  double hidden_s_ = 0;               // the strategy's, when it was asked last
  ProgressLog log_;
  ProgressLog::Saved before_;  // of the run that is resumed
  Profiler profiler_;
  std::string model_sha256_;  // of what was written
  UsageMark used_;
  double started_ = 0;
  // When ranks last asked each other whether to stop, and after how many steps they ask again.
  struct Vote {
    std::uint64_t taken = 0, next = 0;
    double at_s = 0;
  } vote_;
};

}  // namespace lockstep
