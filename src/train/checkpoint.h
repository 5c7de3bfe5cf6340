// Checkpoints: a folder with one file per tensor and rank, and manifest.json, which names them all
// with length and SHA-256. Written beside, then renamed: what is called step-N was whole when it
// got that name.
//
// All ranks write to the same folder, so on several hosts it must be a shared one.
//
// Also what going on from one needs: which settings it fixes, and which may change.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "train/config.h"
#include "transport/transport.h"

namespace lockstep {

// One piece of a rank's state. The bytes are the caller's.
struct Blob {
  std::string name;
  ConstBytes bytes;
};

// What came of a checkpoint.
struct SavedCheckpoint {
  std::string failure;  // on all ranks: the first reason why it can't be written; or empty
  // On rank 0: what those are called now that lay beside it with a larger N. They are of a course
  // that the run has left, by going back to an earlier one, and are not taken for the newest.
  std::vector<std::string> set_aside;
};
// Collective over all ranks. `folder`, called step-N, `about` (what the checkpoint is of, with
// `step`) and `keep` are rank 0's. Replaces a checkpoint of that name. Of those beside it with a
// smaller N, the newest keep - 1 stay; 0: all. If it can't be written nothing is left of it, and
// those that were there still are.
SavedCheckpoint save_checkpoint(Transport&, const std::string& folder,
                                const nlohmann::ordered_json& about, const std::vector<Blob>& mine,
                                std::uint64_t keep = 0);

// The newest checkpoint of a run's folder, not looked into; empty if it has none.
std::string newest_checkpoint(const std::string& run);

// An existing one. Everything read from it is compared with the manifest first; a file that is
// missing, cut, altered or of another kind is a UsageError that names it.
class Checkpoint {
 public:
  // `path`: a checkpoint's folder; or a run's, of which the newest is taken that passes verify().
  explicit Checkpoint(const std::string& path);

  // Reads all files of all ranks and compares them with the manifest.
  void verify() const;
  // Newer ones that were damaged, a sentence each.
  const std::vector<std::string>& passed_over() const { return passed_over_; }

  const std::string& folder() const { return folder_; }
  const nlohmann::json& about() const { return about_; }
  std::uint64_t step() const { return about_.at("step"); }
  bool has(int rank, const std::string& name) const;
  std::string path_of(int rank, const std::string& name) const;
  std::string read(int rank, const std::string& name) const;
  // REQUIRES nothing of its length: UsageError if it is not that of `into`.
  void read(int rank, const std::string& name, Bytes into) const;

 private:
  void open(const std::string& folder);

  std::string folder_;
  nlohmann::json about_, files_;
  std::vector<std::string> passed_over_;
};

// The configuration of the run whose checkpoint lies at `path`, after every file of the checkpoint
// has been compared with the manifest. `resume` is the checkpoint's folder, `out` the folder of the
// run that the checkpoint lies in, or empty. Files that the run wrote elsewhere are not written
// again unless they are asked for again: a manifest never chooses where to write. UsageError.
RunBefore run_to_resume(const std::string& path);
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

}  // namespace lockstep
