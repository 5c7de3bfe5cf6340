// The commands that a study can run, known by their own flags: what they refuse, a study refuses.
#pragma once

#include <memory>

#include "study/plan.h"

namespace lockstep {

// `command`: "train", "bench allreduce" or "bench p2p". UsageError lists them.
std::unique_ptr<study::Subject> subject_named(const std::string& command);

}  // namespace lockstep
