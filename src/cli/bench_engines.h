// Starts the engines that a plan names.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/contest.h"
#include "cli/bench_flags.h"

namespace lockstep {

struct Engines {
  std::vector<std::unique_ptr<bench::Engine>> all;
  std::vector<bench::Contender> contenders;  // ours first
};

// `interrupt`: see interrupt.h. Pipes are made in `temporary`. UsageError if an engine is not
// installed.
Engines start_engines(const BenchPlan&, int interrupt, const std::string& temporary);

}  // namespace lockstep
