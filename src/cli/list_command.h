// lockstep list collectives
#pragma once

#include <CLI/CLI.hpp>

namespace lockstep {

class ListCommand {
 public:
  // The application outlives this.
  explicit ListCommand(CLI::App& application);
  bool chosen() const { return command_->parsed(); }
  int run() const;

 private:
  std::string what_;
  bool json_ = false;
  CLI::App* command_;
};

}  // namespace lockstep
