// --record and --replay: a run on real ranks whose workers go apart, repeated to the bit.
//
// A record is a folder with a file for each rank (see decorators/witness.h), which each rank writes
// for itself, on its own host, and has when the run has ended well: a run that fails, is stopped or
// loses a rank leaves none that can be replayed.
#pragma once

#include <string>
#include <vector>

#include "train/trainer.h"

namespace lockstep {

// Of the launcher, or of one of the ranks that another launcher started: can the record be written?
// UsageError.
void check_record_free(const std::string& folder, std::optional<int> rank);

// Of the launcher, when the run has ended: removes the record if the file of a rank is missing.
// False: it was.
bool discard_unless_whole(const TrainConfig&);

// The settings of the run that `folder` is the record of, as its file of `rank` has them; files
// that the run wrote elsewhere are not written again. `program`: see train_repeatably().
// UsageError.
RunBefore run_to_replay(const std::string& folder, int rank, const nlohmann::json& program);
// UsageError names a setting that would make another run of it.
void check_replayable(const TrainConfig& recorded, const TrainConfig& asked);
// Of the launcher, before it starts ranks: reads the files of all of them. UsageError.
void check_records_of_all(const TrainConfig&);

// train(), recorded or replayed if the configuration says so. `program`: what this program is and
// was built with, for a replay by another one to say so. ReplayDiverged names rank, lane and
// choice, or says that other weights came out; UsageError for a record that does not fit.
WorkerOutcome train_repeatably(Rank&, const Experiment&, const WorkerOptions&,
                               const nlohmann::json& program);

}  // namespace lockstep
