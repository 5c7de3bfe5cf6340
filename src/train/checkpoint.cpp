#include "train/checkpoint.h"

#include <filesystem>

#include "collectives/barrier.h"
#include "core/error.h"
#include "train/files.h"
#include "train/gather.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
constexpr const char* kKind = "lockstep checkpoint";
constexpr int kSchema = 1;
constexpr const char* kManifest = "manifest.json";
constexpr Tag kMeet{Purpose::checkpoint, 1};

std::string file_of(int rank, const std::string& name) {
  return fmt::format("rank-{}.{}", rank, name);
}

// step-N of the largest N that is whole.
fs::path newest_in(const fs::path& run) {
  fs::path newest;
  std::uint64_t most = 0;
  if (fs::is_directory(run / "checkpoints"))
    for (const auto& entry : fs::directory_iterator(run / "checkpoints")) {
      const std::string name = entry.path().filename();
      if (!name.starts_with("step-") || !fs::exists(entry.path() / kManifest)) continue;
      const std::uint64_t step = std::strtoull(name.c_str() + 5, nullptr, 10);
      if (newest.empty() || step > most) {
        newest = entry.path();
        most = step;
      }
    }
  return newest;
}

}  // namespace

void save_checkpoint(Transport& peers, const std::string& first_folder,
                     const nlohmann::ordered_json& about, const std::vector<Blob>& mine) {
  const std::string folder = text_of_first(peers, first_folder);
  const std::string partial = folder + ".partial";
  if (peers.rank() == 0) {
    fs::remove_all(partial);
    fs::create_directories(partial);
  }
  barrier(peers, kMeet);
  auto files = nlohmann::ordered_json::object();
  for (const Blob& blob : mine) {
    const std::string name = file_of(peers.rank(), blob.name);
    write_whole(partial + "/" + name, blob.bytes);
    files[name] = {{"bytes", blob.bytes.size}, {"sha256", checksum(blob.bytes)}};
  }
  const auto all = gather_texts(peers, files.dump());
  if (peers.rank() == 0) {
    for (const std::string& theirs : all) files.update(nlohmann::ordered_json::parse(theirs));
    const nlohmann::ordered_json manifest = {
        {"kind", kKind}, {"schema_version", kSchema}, {"about", about}, {"files", files}};
    write_whole(partial + "/" + kManifest, manifest.dump(1));
    move_into_place(partial, folder);
  }
  barrier(peers, kMeet);
}

Checkpoint::Checkpoint(const std::string& path) {
  fs::path folder = path;
  if (!fs::exists(folder / kManifest)) folder = newest_in(path);
  if (folder.empty())
    throw UsageError(
        fmt::format("there is no checkpoint in {}: give a run's folder that has "
                    "checkpoints/step-N, or one of those",
                    path));
  folder_ = folder.string();
  const std::string name = folder_ + "/" + kManifest;
  try {
    const auto manifest = nlohmann::json::parse(read_whole(name));
    if (manifest.at("kind") != kKind)
      throw UsageError(fmt::format("{} is not a checkpoint's manifest", name));
    if (manifest.at("schema_version") != kSchema)
      throw UsageError(fmt::format("{} has format {}, and this program reads format {}", name,
                                   manifest.at("schema_version").dump(), kSchema));
    about_ = manifest.at("about");
    files_ = manifest.at("files");
  } catch (const nlohmann::json::exception&) {
    throw UsageError(fmt::format("{} is damaged: it is not a checkpoint's manifest", name));
  }
}

bool Checkpoint::has(int rank, const std::string& name) const {
  return files_.contains(file_of(rank, name));
}

std::string Checkpoint::read(int rank, const std::string& name) const {
  const std::string file = file_of(rank, name), path = folder_ + "/" + file;
  if (!files_.contains(file))
    throw UsageError(fmt::format("the checkpoint {} has no {}", folder_, file));
  std::string bytes = read_whole(path);
  const auto& expected = files_.at(file);
  if (bytes.size() != expected.at("bytes"))
    throw UsageError(fmt::format("{} is cut: it has {} bytes, the manifest says {}", path,
                                 bytes.size(), expected.at("bytes").dump()));
  if (checksum({bytes.data(), bytes.size()}) != expected.at("sha256"))
    throw UsageError(fmt::format("{} is damaged: its SHA-256 is not the manifest's", path));
  return bytes;
}

void Checkpoint::read(int rank, const std::string& name, Bytes into) const {
  const std::string bytes = read(rank, name);
  if (bytes.size() != into.size)
    throw UsageError(
        fmt::format("{}/{} has {} bytes, where {} are expected: it is of another model", folder_,
                    file_of(rank, name), bytes.size(), into.size));
  copy(into, {bytes.data(), bytes.size()});
}

std::string newest_checkpoint(const std::string& run) { return newest_in(run).string(); }

}  // namespace lockstep
