// The loops of a run, which differ in which ranks wait for which; train() picks one. A loop takes
// the members and the state of the run as values, and leaves in them what they have become.
#pragma once

#include "train/worker.h"

namespace lockstep {

// All ranks take every step together, and meet to be scored. `first`: steps taken before.
void run_together(const Trainee&, Stepper&, Timetable&, Recorder&, Checkpoints&, const Generation&,
                  RunState&, std::uint64_t first);

// Workers go apart: each takes its steps at its own pace, nobody waits for anybody but by the
// strategy's rule, and the run goes on without ranks that are lost. All meet only for checkpoints,
// when they are told to stop, and at the end.
void run_apart(const Trainee&, Stepper&, Timetable&, Recorder&, Checkpoints&, Generation&,
               RunState&, std::uint64_t first);

// How many tasks of a run in rounds came to what. Its manager knows.
struct TaskCounts {
  std::optional<std::uint64_t> reissued, dropped;  // handed out again; done by nobody
};

// Ranks go in rounds: in every epoch a manager hands out the split's shards as tasks, each worker
// trains on its own from the epoch's model, and the manager makes the next model of the results
// (strategies/rounds/round_strategy.h says how), scores it, and goes on. The run goes on without workers
// that die; tasks that are given up go to others, or are dropped.
TaskCounts run_rounds(const Trainee&, Stepper&, const Timetable&, Recorder&, Generation&,
                      RunState&);

}  // namespace lockstep
