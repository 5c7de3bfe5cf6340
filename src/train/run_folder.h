// A run on disk: run.json (configuration, versions, machine, and at the end the result),
// metrics.jsonl (a line per score and for some steps' losses), checkpoints/, model.pt. Whatever
// happens, what is there can be read.
//
// One process at a time writes a run, the one that started it; its ranks write for it. A run that
// is resumed keeps what its run.json says until all ranks have read their checkpoint: until then
// the new one lies beside it, as next.json.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "train/config.h"

namespace lockstep {

// The right to write a run's folder, while this lives: a lock on its file owner.json, which names
// the process. The kernel gives the lock back whatever the process dies of.
class RunOwner {
 public:
  // Makes the folder if need be. UsageError if another process owns it, or may: one of another host
  // that did not give it back, where the folder's file system can't tell whether it lives.
  explicit RunOwner(const std::string& folder);
  ~RunOwner();
  RunOwner(const RunOwner&) = delete;

 private:
  int file_ = -1;
};

class RunFolder {
 public:
  // The folder of an existing run.
  explicit RunFolder(std::string path) : path_(std::move(path)) {}
  // Makes it and writes run.json with status "running"; next.json if this is the run that is
  // resumed. UsageError if there is another run already.
  static RunFolder create(const TrainConfig&, const nlohmann::ordered_json& facts);
  // Until a run has ended a part of the disk is kept free for its model and its end, so that they
  // can be written whatever else fills it. Gives the model's part free.
  void make_room_for_model() const;
  // All ranks have what they go on from: next.json, if there is one, becomes run.json. What the run
  // had come to before stays in it as `previous`.
  void go_on() const;

  const std::string& path() const { return path_; }
  std::string checkpoint(std::uint64_t step) const;
  std::string model() const { return path_ + "/model.pt"; }

  TrainConfig config() const;  // of next.json, if there is one
  void add_metrics(const nlohmann::ordered_json& line) const;
  // Under `result`; its status becomes the run's.
  void write_result(const nlohmann::ordered_json& summary) const;
  // As run.json has it; but a run that is "running" while nobody owns it is "failed".
  nlohmann::ordered_json read() const;
  // A run that ended before it could say so. One that is not running any more keeps what it says,
  // and so does one that did not go on.
  void write_failure(const std::string& status, const std::string& reason) const;

 private:
  nlohmann::ordered_json as_written(const char* name) const;
  void write(const nlohmann::ordered_json& run) const;
  // In the room that was kept for it.
  void write_end(const nlohmann::ordered_json& run) const;
  std::string path_;
};

// "" if a process owns the folder; else what is known of the one that should: "its process (pid 123
// on host h) ended without a word".
std::string owner_is_gone(const std::string& folder);
// The run that a checkpoint is of, by where it lies: RUN of RUN/checkpoints/step-N; else empty.
std::string run_of_checkpoint(const std::string& checkpoint);

}  // namespace lockstep
