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

}  // namespace lockstep
