// lockstep report DIR
#pragma once

#include <CLI/CLI.hpp>

namespace lockstep {

class ReportCommand {
 public:
  // The application outlives this.
  explicit ReportCommand(CLI::App& application);
  bool chosen() const { return command_->parsed(); }
  int run() const;

 private:
  CLI::App* command_;
  std::string folder_;
  bool json_ = false;
};

}  // namespace lockstep
