// Checkpoints: a folder with one file per tensor and rank, and manifest.json, which names them all
// with length and SHA-256. Written beside, then renamed: what has its name is whole.
//
// All ranks write to the same folder, so on several hosts it must be a shared one.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "transport/transport.h"

namespace lockstep {

// One piece of a rank's state. The bytes are the caller's.
struct Blob {
  std::string name;
  ConstBytes bytes;
};

// Collective over all ranks. `folder` and `about` (what the checkpoint is of) are rank 0's.
// Replaces a checkpoint of that name.
void save_checkpoint(Transport&, const std::string& folder, const nlohmann::ordered_json& about,
                     const std::vector<Blob>& mine);

// The newest checkpoint of a run's folder; empty if it has none.
std::string newest_checkpoint(const std::string& run);

// An existing one. Everything read from it is compared with the manifest first; a file that is
// missing, cut, altered or of another kind is a UsageError that names it.
class Checkpoint {
 public:
  // `path`: a checkpoint's folder, or a run's, whose newest one is taken.
  explicit Checkpoint(const std::string& path);

  const std::string& folder() const { return folder_; }
  const nlohmann::json& about() const { return about_; }
  bool has(int rank, const std::string& name) const;
  std::string read(int rank, const std::string& name) const;
  // REQUIRES nothing of its length: UsageError if it is not that of `into`.
  void read(int rank, const std::string& name, Bytes into) const;

 private:
  std::string folder_;
  nlohmann::json about_, files_;
};

}  // namespace lockstep
