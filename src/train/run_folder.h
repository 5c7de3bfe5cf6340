// A run on disk: run.json (configuration, versions, machine, and at the end the result),
// metrics.jsonl (a line per score and for some steps' losses), checkpoints/, model.pt. Whatever
// happens, what is there can be read.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "train/config.h"

namespace lockstep {

class RunFolder {
 public:
  // The folder of an existing run.
  explicit RunFolder(std::string path) : path_(std::move(path)) {}
  // Makes it and writes run.json with status "running". UsageError if there is a run already,
  // unless it is the one that is resumed.
  static RunFolder create(const TrainConfig&, const nlohmann::ordered_json& facts);

  const std::string& path() const { return path_; }
  std::string checkpoint(std::uint64_t step) const;
  std::string model() const { return path_ + "/model.pt"; }

  TrainConfig config() const;
  void add_metrics(const nlohmann::ordered_json& line) const;
  // Under `result`; its status becomes the run's.
  void write_result(const nlohmann::ordered_json& summary) const;
  nlohmann::ordered_json read() const;
  // A run that ended before it could say so.
  void write_failure(const std::string& status, const std::string& reason) const;

 private:
  void write(const nlohmann::ordered_json& run) const;
  std::string path_;
};

}  // namespace lockstep
