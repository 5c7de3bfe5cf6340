// One run of `lockstep train`, from its configuration to its summary.
#pragma once

#include <optional>

#include "cli/train_flags.h"
#include "cli/train_view.h"
#include "cluster/start.h"
#include "train/worker.h"

namespace lockstep {

class Training {
 public:
  // `start`: another launcher started this process. UsageError for data or a model that can't be
  // opened.
  Training(TrainConfig, const TrainFlags&, std::optional<Start> start);

  // Says what is to be known before it starts, `notices` among it.
  void announce(const std::vector<std::string>& notices);
  // What would run.
  nlohmann::ordered_json plan() const;
  // The exit status.
  int run(bool json);

 private:
  void measure_step();
  bool keeps_records() const;
  void make_folder();
  // Each returns the exit status. Until they do a signal only asks them to stop: run.json gets its
  // end.
  int launch(const RunFolder&, std::string& verdict);
  int here(const RunFolder&);
  int no_result(const RunFolder&, const std::string& verdict);
  // With where to go on from, if there is a checkpoint.
  void write_end(const RunFolder&, const std::string& how, std::string reason);
  void run_ranks(const WorkerOptions&) const;
  // Who told us to stop does not wait long for those who read what we say.
  void hurry();

  const HostFlags hosts_;
  std::optional<Start> start_;
  Experiment experiment_;
  Output out_, err_;  // of this process
  TrainView view_;
  std::size_t parameters_ = 0;
  std::optional<RunOwner> owner_;
  nlohmann::ordered_json failure_;  // in place of a result
};

// What came of a run, to its folder and to the profile that it was asked for. The result comes
// last: a run that has one has all that was asked of it.
void keep(const TrainConfig&, const WorkerOutcome&, const RunFolder&);

}  // namespace lockstep
