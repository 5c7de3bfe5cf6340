// lockstep train
#pragma once

#include <CLI/CLI.hpp>

#include "cli/train_flags.h"
#include "cluster/start.h"

namespace lockstep {

class TrainCommand {
 public:
  // The application outlives this.
  explicit TrainCommand(CLI::App& application);
  bool chosen() const { return command_->parsed(); }
  // The exit status.
  int run() const;

  // Checked, with everything filled in that follows from other flags and from the launcher.
  // UsageError.
  // `notices`: gets what is to be said of it, if anybody is to hear it.
  TrainConfig configured(const std::optional<Start>&,
                         std::vector<std::string>* notices = nullptr) const;

 private:
  CLI::App* command_;
  TrainFlags flags_;
};

// lockstep train-worker FOLDER: one rank of a run. Started by `train`, not by people.
class TrainWorkerCommand {
 public:
  explicit TrainWorkerCommand(CLI::App& application);
  bool chosen() const { return command_->parsed(); }
  int run() const;

 private:
  CLI::App* command_;
  std::string folder_;
};

}  // namespace lockstep
