// One rank at work: the steps that it takes or serves, and the loops that these are taken in.
#pragma once

#include <functional>

#include "measure/profile.h"
#include "train/carrier.h"
#include "train/run_state.h"

namespace lockstep {

// Called after each action of a learner.
using AfterAction = std::function<void(const Action&)>;

// The actions of the open step, one after another, and its end; returns its loss. What passes
// between workers of a pipeline is received before the action that needs it, and sent when it is
// there. Without a carrier nothing passes.
double compute(Learner&, Carrier* = nullptr, const AfterAction& = {});
// Answers a part of the test set in the same way. Stages that compute no loss have no tally.
Tally tally_of(Learner&, Slice part_of_test_set, Carrier* = nullptr);

class Stepper {
 public:
  // All outlive it. A strategy that has the part Fed, and makes use of it, is fed from now on.
  Stepper(const Trainee&, Plan&, RunState&, Timetable&, Recorder&);
  Stepper(const Stepper&) = delete;

  // One optimisation step of this worker: gradients of its samples, then the strategy's turn.
  void take(const Generation&, std::uint64_t step);
  // The same on a batch of the task that the learner has open. Returns its mean loss.
  double take_of_task(const Generation&, const Step&, std::size_t batch);
  // On a server: serves the steps from `first` up to `end`, or fewer where ranks go apart and are
  // told to stop;
  void serve(std::uint64_t first, std::uint64_t end);
  // and notes them, once it is known how many they were.
  void served(std::uint64_t first, std::uint64_t end);
  // Where ranks go apart. Collective over those that are left: this rank rests until all have met.
  // Returns those that have met, and adds to `waited_s` how long that took.
  Generation rest(const Generation&, double& waited_s);

  // How long this rank's steps took.
  Profile profile() const;

 private:
  // With the samples that each worker reads in it, which may be those of its team. What it returns
  // stays valid until the next call.
  Step step_at(std::uint64_t number);
  // A step is taken, with so many samples of this rank, or of its pipeline.
  void note(Step, std::size_t own_samples);
  // `open`: opens the batch.
  double take(const Generation&, const Step&, std::uint64_t taken,
              const std::function<void()>& open);
  double compute_step(const Step&, std::size_t samples, const std::function<void()>& open);
  // The same on a worker of a pipeline, in any world.
  double compute_passes(std::size_t samples);
  // The same in simulation: charges the time that the step takes, and feeds the strategy meanwhile.
  double simulate_step(std::size_t samples);
  // The parts of the gradients that backward told, in the order of their times.
  std::vector<ComputeTime::Ready> ready_parts();
  // A worker without samples waits for as long as a step takes: so an open end comes for it too,
  // and meanwhile it is in nobody's way.
  void sit_out();
  // The strategy's time beside the computation since the last call.
  double newly_hidden_s();

  const Trainee trainee_;
  Fed* const fed_;  // none: the strategy is not fed
  Plan& plan_;
  RunState& state_;
  Timetable& timetable_;
  Recorder& recorder_;
  Profiler profiler_;
  std::vector<std::size_t> samples_;  // of the step last asked for, by worker
  std::vector<Slice> ready_;          // in simulation: parts that backward told, in order
  std::uint64_t of_tasks_ = 0;        // steps of this rank
  double own_step_s_ = 0;             // its last one with samples
  double hidden_s_ = 0;               // the strategy's, when it was asked last
};

// Passes some time; messages on the rank's own lane arrive meanwhile.
void doze(Rank&, double seconds);

// The loops of a run, which differ in which ranks wait for which; train() picks one (that of ranks
// which take every step together is in trainer.cpp). A loop takes the members and the state of the
// run as values, and leaves in them what they have become.

// Workers go apart: each takes its steps at its own pace, nobody waits for anybody but by the
// strategy's rule, and the run goes on without ranks that are lost. All meet only for checkpoints,
// when they are told to stop, and at the end. `first`: steps taken before.
void run_apart(const Trainee&, Stepper&, Timetable&, Recorder&, Checkpoints&, Generation&,
               RunState&, std::uint64_t first);

// How many tasks of a run in rounds came to what. Its manager knows.
struct TaskCounts {
  std::optional<std::uint64_t> reissued, dropped;  // handed out again; done by nobody
};

// Ranks go in rounds: in every epoch a manager hands out the split's shards as tasks, each worker
// trains on its own from the epoch's model, and the manager makes the next model of the results
// (strategies/rounds/round_strategy.h says how), scores it, and goes on. The run goes on without
// workers that die; tasks that are given up go to others, or are dropped.
TaskCounts run_rounds(const Trainee&, Stepper&, const Timetable&, Recorder&, Generation&,
                      RunState&);

}  // namespace lockstep
