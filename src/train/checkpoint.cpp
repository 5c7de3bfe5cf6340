#include "train/checkpoint.h"

#include <filesystem>
#include <functional>
#include <map>
#include <optional>

#include "collectives/gather.h"
#include "core/error.h"
#include "core/json_text.h"
#include "core/units.h"
#include "core/whole_file.h"
#include "train/cluster_spec.h"
#include "train/run_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
constexpr const char* kKind = "lockstep checkpoint";
constexpr int kSchema = 1;
constexpr const char* kManifest = "manifest.json";
constexpr const char *kPartial = ".partial", *kLeft = ".left";

std::string file_of(int rank, const std::string& name) {
  return fmt::format("rank-{}.{}", rank, name);
}

void check(const std::string& path, const FileSum& found, const nlohmann::json& expected) {
  if (found.bytes != expected.at("bytes").get<std::uint64_t>())
    throw UsageError(fmt::format("{} is cut: it has {} bytes, the manifest says {}", path,
                                 found.bytes, expected.at("bytes").dump()));
  if (found.sha256 != expected.at("sha256").get<std::string>())
    throw UsageError(fmt::format("{} is damaged: its SHA-256 is not the manifest's", path));
}

// N of step-N, and of nothing else.
std::optional<std::uint64_t> step_in(const std::string& name) {
  constexpr std::string_view kStart = "step-";
  if (!name.starts_with(kStart)) return {};
  return number_in<std::uint64_t>(std::string_view(name).substr(kStart.size()));
}

// Those with a name and a manifest, by step.
std::map<std::uint64_t, fs::path> checkpoints_in(const fs::path& folder) {
  std::map<std::uint64_t, fs::path> all;
  if (fs::is_directory(folder))
    for (const auto& entry : fs::directory_iterator(folder))
      if (const auto step = step_in(entry.path().filename()))
        if (fs::exists(entry.path() / kManifest)) all[*step] = entry.path();
  return all;
}

fs::path folder_of_all(const fs::path& run) { return run / "checkpoints"; }

// Renames those with a larger N than `newest` has, which need not be there yet: see
// SavedCheckpoint.
std::vector<std::string> set_aside_later(const fs::path& newest) {
  std::vector<std::string> names;
  const auto latest = step_in(newest.filename());
  const auto all = checkpoints_in(newest.parent_path());
  for (auto later = latest ? all.upper_bound(*latest) : all.end(); later != all.end(); ++later) {
    const std::string name = later->second.string() + kLeft;
    std::string free = name;
    for (int n = 2; fs::exists(free); ++n) free = fmt::format("{}-{}", name, n);
    fs::rename(later->second, free);
    names.push_back(free);
  }
  return names;
}

// What a crash left half-written: room for the next one.
void remove_partial(const fs::path& folder) {
  if (!fs::is_directory(folder)) return;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("step-") && name.ends_with(kPartial)) fs::remove_all(entry.path());
  }
}

// All but the newest so many up to `newest`.
void remove_old(const fs::path& newest, std::uint64_t keep) {
  if (keep == 0) return;
  auto all = checkpoints_in(newest.parent_path());
  while (all.size() > keep) {
    // First its name, so that half of it is never taken for a checkpoint.
    const std::string partial = all.begin()->second.string() + kPartial;
    fs::rename(all.begin()->second, partial);
    fs::remove_all(partial);
    all.erase(all.begin());
  }
}

// What `write` failed of, or "".
std::string failure_of(const std::function<void()>& write) try {
  write();
  return "";
} catch (const std::exception& e) {
  return e.what();
}

}  // namespace

SavedCheckpoint save_checkpoint(Transport& peers, const std::string& first_folder,
                                const nlohmann::ordered_json& about, const std::vector<Blob>& mine,
                                std::uint64_t keep) {
  const bool leads = peers.rank() == 0;
  const std::string folder = text_of_first(peers, first_folder), partial = folder + kPartial;
  std::string failure;
  std::vector<std::string> set_aside;
  if (leads)
    failure = failure_of([&] {
      remove_partial(fs::path(folder).parent_path());
      fs::create_directories(partial);
    });
  failure = text_of_first(peers, failure);
  if (!failure.empty()) return {failure, {}};
  auto files = nlohmann::ordered_json::object();
  failure = failure_of([&] {
    for (const Blob& blob : mine) {
      const std::string name = file_of(peers.rank(), blob.name);
      write_whole(partial + "/" + name, blob.bytes);
      files[name] = {{"bytes", blob.bytes.size}, {"sha256", checksum(blob.bytes)}};
    }
  });
  const auto failures = gather_texts(peers, failure), all = gather_texts(peers, files.dump());
  if (leads) {
    for (const std::string& theirs : failures)
      if (failure.empty()) failure = theirs;
    if (failure.empty())
      failure = failure_of([&] {
        for (const std::string& theirs : all) files.update(nlohmann::ordered_json::parse(theirs));
        const nlohmann::ordered_json manifest = {
            {"kind", kKind}, {"schema_version", kSchema}, {"about", about}, {"files", files}};
        write_whole(partial + "/" + kManifest, json_text(manifest, 1));
        // Before there is a newer one that they would hide.
        set_aside = set_aside_later(folder);
        move_into_place(partial, folder);
        remove_old(folder, keep);
      });
    std::error_code ignored;
    if (!failure.empty()) fs::remove_all(partial, ignored);
  }
  return {text_of_first(peers, failure), set_aside};
}

Checkpoint::Checkpoint(const std::string& path) {
  if (fs::exists(fs::path(path) / kManifest)) {
    open(path);
    return;
  }
  const auto all = checkpoints_in(folder_of_all(path));
  for (auto newest = all.rbegin(); newest != all.rend(); ++newest) try {
      open(newest->second.string());
      verify();
      return;
    } catch (const UsageError& e) {
      passed_over_.push_back(e.what());
    }
  if (passed_over_.empty())
    throw UsageError(
        fmt::format("there is no checkpoint in {}: give a run's folder that has "
                    "checkpoints/step-N, or one of those",
                    path));
  throw UsageError(
      fmt::format("no checkpoint in {} is whole; of the newest, {}", path, passed_over_[0]));
}

void Checkpoint::open(const std::string& folder) {
  folder_ = folder;
  const std::string name = folder_ + "/" + kManifest;
  try {
    const auto manifest = json_in<nlohmann::json>(read_whole(name));
    if (manifest.at("kind") != kKind)
      throw UsageError(fmt::format("{} is not a checkpoint's manifest", name));
    if (manifest.at("schema_version") != kSchema)
      throw UsageError(fmt::format("{} has format {}, and this program reads format {}", name,
                                   manifest.at("schema_version").dump(), kSchema));
    about_ = manifest.at("about");
    files_ = manifest.at("files");
    bool fits = about_.at("step").is_number_unsigned() && files_.is_object();
    for (const auto& [file, sum] : files_.items())
      fits = fits && file.find('/') == file.npos && sum.at("bytes").is_number_unsigned() &&
             sum.at("sha256").is_string();
    if (fits) return;
  } catch (const nlohmann::json::exception&) {
  }
  throw UsageError(fmt::format("{} is damaged: it is not a checkpoint's manifest", name));
}

void Checkpoint::verify() const {
  for (const auto& [file, expected] : files_.items())
    check(folder_ + "/" + file, checksum_of_file(folder_ + "/" + file), expected);
}

bool Checkpoint::has(int rank, const std::string& name) const {
  return files_.contains(file_of(rank, name));
}

std::string Checkpoint::path_of(int rank, const std::string& name) const {
  return folder_ + "/" + file_of(rank, name);
}

std::string Checkpoint::read(int rank, const std::string& name) const {
  const std::string file = file_of(rank, name), path = path_of(rank, name);
  if (!files_.contains(file))
    throw UsageError(fmt::format("the checkpoint {} has no {}", folder_, file));
  std::string bytes = read_whole(path);
  check(path, {bytes.size(), checksum({bytes.data(), bytes.size()})}, files_.at(file));
  return bytes;
}

void Checkpoint::read(int rank, const std::string& name, Bytes into) const {
  const std::string bytes = read(rank, name);
  if (bytes.size() != into.size)
    throw UsageError(fmt::format("{} has {} bytes, where {} are expected: it is of another model",
                                 path_of(rank, name), bytes.size(), into.size));
  copy(into, {bytes.data(), bytes.size()});
}

std::string newest_checkpoint(const std::string& run) {
  const auto all = checkpoints_in(folder_of_all(run));
  return all.empty() ? "" : all.rbegin()->second.string();
}

RunBefore run_to_resume(const std::string& path) {
  const Checkpoint checkpoint(path);
  checkpoint.verify();
  RunBefore found;
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

}  // namespace lockstep
