#include "train/resume.h"

#include <filesystem>
#include <sstream>

#include "core/error.h"
#include "train/checkpoint.h"
#include "train/cluster_spec.h"
#include "train/files.h"
#include "train/json_text.h"
#include "train/run_folder.h"

namespace lockstep {

Resumable run_to_resume(const std::string& path) {
  const Checkpoint checkpoint(path);
  checkpoint.verify();
  Resumable found;
  try {
    found.config = config_from(checkpoint.about().at("config"));
  } catch (const nlohmann::json::exception&) {
    throw UsageError(
        fmt::format("{}/manifest.json does not say what it is of", checkpoint.folder()));
  } catch (const UsageError& e) {
    throw UsageError(fmt::format("{}/manifest.json: {}", checkpoint.folder(), e.what()));
  }
  found.config.resume = checkpoint.folder();
  found.config.out = run_of_checkpoint(checkpoint.folder());
  found.config.profile_out.clear();
  found.config.record.clear();
  found.config.replay.clear();
  for (const std::string& damaged : checkpoint.passed_over())
    found.notices.push_back(
        fmt::format("a newer checkpoint is not whole, so the run goes on from {}: {}",
                    checkpoint.folder(), damaged));
  if (found.config.out.empty()) return found;
  const auto run = RunFolder(found.config.out).read();
  if (run["status"] == "failed" && !run.value("reason", "").empty())
    found.notices.push_back(fmt::format("the run had failed: {}", run.value("reason", "")));
  return found;
}

void check_resumable(const TrainConfig& saved, const TrainConfig& asked) {
  const auto before = to_json(saved), after = to_json(asked);
  const auto refuse = [&](const std::string& setting) {
    throw UsageError(
        fmt::format("the checkpoint {} is of a run with {} {}, so it can't go on with {}",
                    saved.resume, setting, before.at(setting).dump(), after.at(setting).dump()));
  };
  for (const Setting& setting : settings())
    if (const std::string name(setting.name); !setting.may_change && before[name] != after[name])
      refuse(name);
  // Virtual time does not go on as wall time, nor wall time as virtual.
  const bool was_simulated = cluster_kind(saved.cluster) == "sim";
  if (was_simulated != (cluster_kind(asked.cluster) == "sim")) refuse("cluster");
}

void check_goes_on(const std::string& path, const Found& found) {
  const Checkpoint checkpoint(path);
  if (checkpoint.step() > found.steps)
    throw UsageError(
        fmt::format("the checkpoint {} was taken after {} steps, so it can't go on to step {}: "
                    "give more --steps, --samples or --epochs, or an earlier checkpoint",
                    checkpoint.folder(), checkpoint.step(), found.steps));
  const auto check = [&](const char* what, const char* key, const std::string& sha256) {
    const auto before = checkpoint.about().value(key, nlohmann::json(""));
    if (before != "" && before != sha256)
      throw UsageError(
          fmt::format("the {} changed since the checkpoint {} was taken (SHA-256 {}, was {}), so "
                      "it can't go on",
                      what, checkpoint.folder(), sha256, before.dump()));
  };
  check("data", "data_sha256", found.data_sha256);
  check("model's file", "model_sha256", found.model_sha256);
}

void cut_after(const std::string& path, const std::string& key, std::uint64_t step) {
  if (!std::filesystem::exists(path)) return;
  std::istringstream lines(read_whole(path));
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    const auto json = json_in(line);
    if (!json.is_object()) continue;
    const auto number = json.value(key, nlohmann::ordered_json(0));
    if (number.is_number() && number <= step) kept += line + "\n";
  }
  write_whole(path, kept);
}

}  // namespace lockstep
