// Going on with a run: what its checkpoint fixes and what may change.
#pragma once

#include <string>

#include "train/config.h"

namespace lockstep {

// The configuration of the run that the checkpoint at `path` is of, with `resume` set, and `out` as
// it was. UsageError.
TrainConfig config_of_checkpoint(const std::string& path);
// UsageError names a setting that can't change between a checkpoint and what goes on from it.
void check_resumable(const TrainConfig& saved, const TrainConfig& asked);
// UsageError if more steps were taken before that checkpoint than the run has now.
void check_steps_left(const std::string& checkpoint, std::uint64_t steps);
// Of a file of JSON lines that a resumed run appends to: drops lines whose `key` is more than
// `step`, which will be taken again, and what a crash left of a line. Nothing if it isn't there.
void cut_after(const std::string& path, const std::string& key, std::uint64_t step);

}  // namespace lockstep
