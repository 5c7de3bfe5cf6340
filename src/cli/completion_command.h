// lockstep completion bash
#pragma once

#include <CLI/CLI.hpp>

namespace lockstep {

// Prints a script that lets a shell complete commands, flags and the names that flags take. All of
// it comes from the application's own description and from the lists of `lockstep list`.
class CompletionCommand {
 public:
  // The application outlives this; commands may be added to it later.
  explicit CompletionCommand(CLI::App& application);
  bool chosen() const { return command_->parsed(); }
  int run() const;

 private:
  const CLI::App& application_;
  std::string shell_;
  CLI::App* command_;
};

}  // namespace lockstep
