// lockstep bench-worker --pipes FOLDER: one rank of our own engine. Started by `bench`, not by
// people.
#pragma once

#include <CLI/CLI.hpp>

namespace lockstep {

class WorkerCommand {
 public:
  // The application outlives this.
  explicit WorkerCommand(CLI::App& application);
  bool chosen() const { return command_->parsed(); }
  int run() const;

 private:
  std::string pipes_;
  CLI::App* command_;
};

}  // namespace lockstep
