// What a rank keeps of its run while it goes on, beside the scores: samples of what it uses
// (worker-R.jsonl), and on rank 0 the timeline of all ranks, who was waited for, and TensorBoard's
// events. Where the run is kept nowhere, only who was waited for. What can't be written, on a full
// disk say, never ends a run: it is told once, and from then on none of this is written.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>

#include "measure/sampler.h"
#include "train/event_file.h"
#include "train/experiment.h"
#include "train/moved.h"
#include "train/result.h"
#include "train/run_folder.h"
#include "train/step_clock.h"
#include "train/timeline.h"
#include "train/waited_for.h"
#include "train/watcher.h"

namespace lockstep {

class Recorder {
 public:
  // All outlive this. `watcher`: of this rank, or none. Where ranks keep no common pace nothing
  // here is collective before the end.
  Recorder(Rank&, const Experiment&, StepClock&, const Moved&, Watcher* watcher);

  // Where a resumed run was.
  struct Resumed {
    std::uint64_t step = 0, samples = 0;
    double elapsed_s = 0;
    WaitedFor waited;  // rank 0's
  };
  // Collective: the run starts now, or goes on. `folder`: rank 0's counts. `own_process`: no other
  // rank shares this rank's process.
  void begin(const RunFolder* folder, bool own_process, const Resumed&);

  // After each step. Collective from time to time, when stamps are brought together so that a crash
  // can't take much of the timeline along.
  void stepped(std::uint64_t taken);
  // Collective over `present`, as all below that take it: divides the time of the steps since the
  // last call (see StepClock).
  // `gone`: see gather.h.
  void settle(Transport& present, std::set<int>* gone = nullptr);
  // An evaluation, on this rank's clock, after so many steps.
  void evaluated(double start, double end, std::uint64_t taken);
  // Rank 0's: completes the score with who was waited for since the last one, and tells TensorBoard
  // of it. `samples`: trained on so far, by all workers.
  void scored(Score&, std::uint64_t samples);
  // At the end of the run: all files are complete.
  void finish(Transport& present, std::set<int>* gone = nullptr);

  // Does that, unless writing has failed before.
  void write(const std::function<void()>& what);

  double elapsed_s() const;                                // since the run's start
  const WaitedFor& waited_for() const { return waited_; }  // rank 0's, settled steps
  std::optional<int> straggler() const;                    // rank 0's, of the whole run
  std::optional<MemoryPeaks> peaks() const;                // after finish()

 private:
  struct Evaluated {
    double start, end;  // on rank 0's clock
    std::uint64_t step;
  };
  struct Mark {  // at the last score
    std::uint64_t samples = 0;
    double training_s = 0;
  };

  void open_files(const std::string& folder, bool own_process, std::uint64_t step);
  std::unique_ptr<Sampler> open_sampler(const std::string& path, bool own_process) const;
  RankProgress progress() const;
  std::vector<double> row_of(const std::vector<TimedStep>&) const;
  void take_in(Transport& present, const std::vector<TimedStep>& mine,
               const std::vector<std::vector<double>>& rows);
  // The steps and evaluations of a rank's row, into the timeline; returns how long it waited in
  // each.
  std::vector<double> take_row(int rank, const std::vector<double>& row);
  LaneEvent since_start(LaneEvent) const;

  Rank& rank_;
  const Experiment& experiment_;
  StepClock& clock_;
  const Moved& moved_;
  Watcher* const watcher_;
  const int keeper_;  // the rank that keeps the records of all: the manager, where there is one
  const StepWindow window_;
  double origin_s_ = 0;  // the run's start on rank 0's clock
  std::uint64_t taken_ = 0, settled_ = 0;
  std::vector<Evaluated> evaluated_;  // since the last settle()
  WaitedFor waited_, waited_since_score_;
  Mark scored_;
  double calendar_origin_s_ = 0;
  std::unique_ptr<Sampler> sampler_;
  std::optional<Timeline> timeline_;
  std::optional<EventFile> events_;
  std::string folder_;
  bool failed_ = false;  // to write
};

}  // namespace lockstep
