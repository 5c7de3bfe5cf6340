// lockstep study
#pragma once

#include <CLI/CLI.hpp>

#include "cluster/output.h"
#include "study/study.h"

namespace lockstep {

class StudyCommand {
 public:
  // The application outlives this.
  explicit StudyCommand(CLI::App& application);
  bool chosen() const { return command_->parsed(); }
  // The exit status: 1 if a run failed.
  int run() const;

 private:
  std::string folder() const;
  void summary(const study::Study&, const std::string& report, Output& out) const;

  CLI::App* command_;
  std::string file_, out_;
  bool quick_ = false, json_ = false, dry_run_ = false;
};

}  // namespace lockstep
