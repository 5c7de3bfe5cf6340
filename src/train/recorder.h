// The records of a run on one rank: samples of what it uses (worker-R.jsonl), and on the rank that
// keeps the records the timeline of all ranks, who was waited for, scores, TensorBoard's events and
// the model. Where the run has no folder nothing is written. A record that can't be written, on a
// full disk say, never ends a run: the watcher is told once, and from then on no record is written;
// the model alone is an error.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>

#include "measure/event_file.h"
#include "measure/metered.h"
#include "measure/sampler.h"
#include "measure/step_clock.h"
#include "measure/timeline.h"
#include "train/experiment.h"
#include "train/learner.h"
#include "train/result.h"
#include "train/trainer.h"

namespace lockstep {

class ProgressLog;  // run_state.h

class Recorder {
 public:
  // All outlive this. Where ranks keep no common pace nothing here is collective before the end.
  Recorder(Rank&, const Experiment&, const WorkerOptions&, Plan&, StepClock&, const MeteredRank&);

  // Where a resumed run was.
  struct Resumed {
    std::uint64_t step = 0, samples = 0;
    double elapsed_s = 0;
    Stragglers waited;  // rank 0's
  };
  // Collective: the run starts now, or goes on. The folder is rank 0's.
  void begin(const Resumed&);

  // Is the step that ends with so many taken in the timeline?
  bool shows(std::uint64_t taken) const { return window_.has(taken); }
  // After each step. Collective from time to time, when stamps are brought together so that a crash
  // can't take much of the timeline along.
  void stepped(std::uint64_t taken);
  // Collective over `present`, as all below that take it: divides the time of the steps since the
  // last call (see StepClock).
  // `gone`: see gather.h.
  void settle(Transport& present, std::set<int>* gone = nullptr);
  // An evaluation, on this rank's clock, after so many steps.
  void evaluated(double start, double end, std::uint64_t taken);
  // Adds a score to the log. Where `publishes` it also goes to the files and the watcher, completed
  // with who was waited for since the last one. `samples`: trained on before it, by all workers.
  void keep(ProgressLog&, Score&, std::uint64_t samples, bool publishes);
  // Writes what the run has come to, on the rank that leads: its part of the network.
  void keep_model(Learner&, const Model&);
  // The same where the network is in parts: `save` writes it to a path, unless that is empty, and
  // returns the SHA-256 of its weights.
  void keep_model(const std::function<std::string(const std::string& path)>& save);
  const std::string& model_sha256() const { return model_sha256_; }  // of what was written
  // At the end of the run: all files are complete.
  void finish(Transport& present, std::set<int>* gone = nullptr);

  // What this rank has moved by the strategy, since the run's start.
  Traffic exchanged() const { return metered_.exchanged(); }
  double elapsed_s() const;                                 // since the run's start
  const Stragglers& waited_for() const { return waited_; }  // rank 0's, settled steps
  // Where this rank keeps the records: how each rank was waited for in the whole run.
  void add_waits(TrainResult&) const;
  std::optional<MemoryPeaks> peaks() const;  // after finish()

 private:
  struct Evaluated {
    double start, end;  // on rank 0's clock
    std::uint64_t step;
  };
  struct Mark {  // at the last score
    std::uint64_t samples = 0;
    double training_s = 0;
  };

  void open_files(std::uint64_t step);
  std::unique_ptr<Sampler> open_sampler(const std::string& path) const;
  // Does that, unless writing has failed before.
  void write(const std::function<void()>& what);
  void publish(Score&, std::uint64_t samples);
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
  const WorkerOptions& options_;
  Plan& plan_;
  StepClock& clock_;
  const MeteredRank& metered_;
  const int keeper_;  // the rank that keeps the records of all: the manager, where there is one
  const StepWindow window_;
  double origin_s_ = 0;  // the run's start on rank 0's clock
  std::uint64_t taken_ = 0, settled_ = 0;
  std::vector<Evaluated> evaluated_;  // since the last settle()
  Stragglers waited_, waited_since_score_;
  Mark scored_;
  double calendar_origin_s_ = 0;
  std::unique_ptr<Sampler> sampler_;
  std::optional<Timeline> timeline_;
  std::optional<EventFile> events_;
  std::string folder_, model_sha256_;
  bool failed_ = false;  // to write
};

}  // namespace lockstep
