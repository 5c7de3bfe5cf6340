// lockstep bench allreduce|p2p
#pragma once

#include <CLI/CLI.hpp>

#include "cli/bench_plan.h"

namespace lockstep {

class BenchCommand {
 public:
  // The application outlives this.
  explicit BenchCommand(CLI::App& application);
  bool chosen() const { return all_reduce_->parsed() || p2p_->parsed(); }
  // The exit status: 1 if an element was wrong.
  int run() const;

  // What the flags ask for, checked. UsageError.
  BenchPlan plan() const;

 private:
  CLI::App* add(CLI::App& bench, const std::string& name, const std::string& description);

  BenchFlags flags_;
  CLI::App* all_reduce_;
  CLI::App* p2p_;
};

}  // namespace lockstep
