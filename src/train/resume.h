// Going on with a run: what its checkpoint fixes and what may change.
#pragma once

#include <string>

#include "train/config.h"

namespace lockstep {

struct Resumable {
  TrainConfig config;
  std::vector<std::string> notices;  // a sentence each: what is not as one would expect
};
// The configuration of the run that the checkpoint at `path` is of, every file of which has been
// compared with its manifest. `resume` is the checkpoint's folder; `out` the run's folder that the
// checkpoint lies in, or empty; files that the run was to write elsewhere are not written again
// unless they are asked for again: what a manifest says never chooses where to write. UsageError.
Resumable run_to_resume(const std::string& path);
// UsageError names a setting that can't change between a checkpoint and what goes on from it.
void check_resumable(const TrainConfig& saved, const TrainConfig& asked);
// What a run that goes on has now.
struct Found {
  std::uint64_t steps = 0;
  std::string data_sha256, model_sha256;  // see Experiment
};
// UsageError if more steps were taken before that checkpoint than the run has now, or if the data
// or the model's file have changed since.
void check_goes_on(const std::string& checkpoint, const Found&);
// Of a file of JSON lines that a resumed run appends to: drops lines whose `key` is more than
// `step`, which will be taken again, and what a crash left of a line. Nothing if it isn't there.
void cut_after(const std::string& path, const std::string& key, std::uint64_t step);

}  // namespace lockstep
