#include "train/resume.h"

#include <filesystem>
#include <sstream>

#include "core/error.h"
#include "train/checkpoint.h"
#include "train/files.h"

namespace lockstep {

TrainConfig config_of_checkpoint(const std::string& path) {
  const Checkpoint checkpoint(path);
  try {
    TrainConfig config = config_from(checkpoint.about().at("config"));
    config.resume = checkpoint.folder();
    return config;
  } catch (const nlohmann::json::exception&) {
    throw UsageError(
        fmt::format("{}/manifest.json does not say what it is of", checkpoint.folder()));
  }
}

void check_resumable(const TrainConfig& saved, const TrainConfig& asked) {
  const auto before = to_json(saved), after = to_json(asked);
  for (const char* setting :
       {"workers", "servers", "server_placement", "strategy", "model", "data", "limit", "split",
        "reshard", "balanced_batches", "batch", "global_batch", "optimizer", "seed"})
    if (before.at(setting) != after.at(setting))
      throw UsageError(
          fmt::format("the checkpoint {} is of a run with {} {}, so it can't go on with {}",
                      saved.resume, setting, before.at(setting).dump(), after.at(setting).dump()));
}

void check_steps_left(const std::string& path, std::uint64_t steps) {
  const Checkpoint checkpoint(path);
  const std::uint64_t taken = checkpoint.about().at("step");
  if (taken > steps)
    throw UsageError(
        fmt::format("the checkpoint {} was taken after {} steps, so it can't go on to step {}: "
                    "give more --steps, --samples or --epochs, or an earlier checkpoint",
                    checkpoint.folder(), taken, steps));
}

void cut_after(const std::string& path, const std::string& key, std::uint64_t step) {
  if (!std::filesystem::exists(path)) return;
  std::istringstream lines(read_whole(path));
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_object() && json.value(key, std::uint64_t{0}) <= step) kept += line + "\n";
  }
  write_whole(path, kept);
}

}  // namespace lockstep
