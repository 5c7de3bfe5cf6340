#include "train/run_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "core/json_text.h"
#include "core/values.h"
#include "core/whole_file.h"
#include "measure/machine.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
constexpr const char* kKind = "lockstep run";
constexpr const char* kRun = "run.json";
constexpr const char* kNext = "next.json";

constexpr const char* kReserve = "reserve";

// For run.json as it will be at the end.
std::uint64_t room_for_end(const TrainConfig& config) {
  constexpr std::uint64_t kBytes = 1 << 18, kBytesPerRank = 1 << 12;
  return kBytes + kBytesPerRank * static_cast<std::uint64_t>(config.ranks());
}

Json machine_json() {
  const Machine m = this_machine();
  return {{"host", m.host},
          {"processor", m.processor},
          {"cores", m.cores},
          {"memory_bytes", m.memory_bytes},
          {"kernel", m.kernel}};
}

// The process that this is, on disk. A copy of the file has another inode.
Json owner_json(std::uint64_t inode) {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id") >> std::ws, boot);
  return {{"pid", getpid()}, {"boot_id", boot}, {"host", this_machine().host}, {"inode", inode}};
}

std::string owner_path(const std::string& folder) { return folder + "/owner.json"; }

std::string name_of(const Json& owner) {
  if (owner.is_null()) return "a process that left no name";
  return fmt::format("pid {} on host {}", owner["pid"].dump(), owner["host"].get<std::string>());
}

// Null: it names nobody.
Json owner_in(const std::string& folder) try {
  const Json owner = json_in(read_whole(owner_path(folder)));
  const bool names = owner.is_object() && owner.value("pid", Json()).is_number_integer() &&
                     owner.value("host", Json()).is_string();
  return names ? owner : Json();
} catch (const UsageError&) {
  return nullptr;
}

// As far as this folder of code reads it.
bool is_run(const Json& run) {
  return run.is_object() && run.value("kind", Json()) == kKind &&
         run.value("status", Json()).is_string() && run.value("config", Json()).is_object() &&
         run.value("reason", Json("")).is_string() && run.contains("result");
}

// A run's files are replaced, appended to and removed: behind a link those of somebody else would
// be, and a FIFO would wait for ever.
void refuse_all_but_files(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const fs::file_status status = entry->symlink_status();
    // One that is gone by now was another process's.
    const bool plain =
        fs::is_regular_file(status) || fs::is_directory(status) || !fs::exists(status);
    if (!plain)
      throw UsageError(fmt::format(
          "{} is {}, and a run's folder holds nothing but files and folders of its own: remove it, "
          "or choose another --out",
          entry->path().string(), fs::is_symlink(status) ? "a link" : "no ordinary file"));
    const fs::path name = entry->path().filename();
    const bool ours =
        name == "checkpoints" || name == "exchange" || folder.filename() == "checkpoints";
    if (fs::is_directory(status) && ours) refuse_all_but_files(entry->path());
  }
  if (error) throw UsageError(fmt::format("can't read {}: {}", folder.string(), error.message()));
}

// The file is this very one, not a copy, and was written by a host that can't be asked from here.
bool is_elsewhere(const Json& owner, const Json& me) {
  return !owner.is_null() && owner.value("inode", Json()) == me["inode"] &&
         owner["host"] != me["host"];
}

// Of a process of this host, where the file system has no locks.
bool lives(const Json& owner, const Json& me) {
  return !owner.is_null() && owner.value("inode", Json()) == me["inode"] &&
         owner.value("boot_id", Json()) == me["boot_id"] && owner["pid"] != me["pid"] &&
         fs::exists(fmt::format("/proc/{}", owner["pid"].get<std::int64_t>()));
}

// A lock of an open file: nobody else in this process has it, and closing the file ends it.
struct flock whole_file() {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

std::uint64_t inode_of(int file) {
  struct stat about {};
  fstat(file, &about);
  return about.st_ino;
}

}  // namespace

RunOwner::RunOwner(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw UsageError(fmt::format("can't make the folder {}: {}", folder, error.message()));
  refuse_all_but_files(folder);
  const OpenedFile opened = open_to_write(owner_path(folder), O_RDWR | O_CREAT);
  file_ = opened.descriptor;
  if (file_ < 0)
    throw UsageError(fmt::format("can't write {}: {}", owner_path(folder), opened.why_not));
  const Json owner = owner_in(folder), me = owner_json(inode_of(file_));
  struct flock lock = whole_file();
  const bool locked = fcntl(file_, F_OFD_SETLK, &lock) == 0;
  const bool taken = !locked && (errno == EAGAIN || errno == EACCES || lives(owner, me));
  if (taken || is_elsewhere(owner, me)) {
    close(file_);
    throw UsageError(
        taken ? fmt::format("{} is being written by {}: wait for its end, or stop it first", folder,
                            name_of(owner))
              : fmt::format("{} belongs to {}, which can't be asked from here: if that run has "
                            "ended, remove {}",
                            folder, name_of(owner), owner_path(folder)));
  }
  const std::string text = me.dump() + "\n";
  if (ftruncate(file_, 0) != 0 || pwrite(file_, text.data(), text.size(), 0) < 0) {
    const std::string why = std::strerror(errno);
    close(file_);
    throw UsageError(fmt::format("can't write {}: {}", owner_path(folder), why));
  }
}

RunOwner::~RunOwner() {
  (void)!ftruncate(file_, 0);  // given back: it names nobody any more
  close(file_);
}

std::string owner_is_gone(const std::string& folder) {
  const int file = open_to_read(owner_path(folder)).descriptor;
  const Json owner = owner_in(folder);
  bool owned = false;
  if (file >= 0) {
    const Json me = owner_json(inode_of(file));
    struct flock lock = whole_file();
    const bool asked = fcntl(file, F_OFD_GETLK, &lock) == 0;
    owned = is_elsewhere(owner, me) || (asked ? lock.l_type != F_UNLCK : lives(owner, me));
    close(file);
  }
  return owned ? "" : fmt::format("its process ({}) ended without a word", name_of(owner));
}

std::string run_of_checkpoint(const std::string& checkpoint) {
  const auto run_of = [](const fs::path& path) -> fs::path {
    const fs::path folder = path.has_filename() ? path : path.parent_path();
    const fs::path all = folder.parent_path();
    if (all.filename() != "checkpoints") return {};
    const fs::path run = all.has_parent_path() ? all.parent_path() : fs::path(".");
    return fs::exists(run / kRun) ? run : fs::path();
  };
  const fs::path as_given = run_of(fs::path(checkpoint).lexically_normal());
  std::error_code error;
  return as_given.empty() ? run_of(fs::weakly_canonical(checkpoint, error)).string()
                          : as_given.string();
}

RunFolder RunFolder::create(const TrainConfig& config, const Json& facts) {
  RunFolder folder(config.out);
  const bool there = fs::exists(config.out + "/" + kRun);
  const std::string resumed = config.resume.empty() ? "" : run_of_checkpoint(config.resume);
  std::error_code error;
  const bool again = there && !resumed.empty() && fs::equivalent(resumed, config.out, error);
  if (there && !again)
    throw UsageError(
        fmt::format("{} holds a run already: choose another --out, or go on with --resume {}",
                    config.out, config.out));
  fs::create_directories(config.out, error);
  if (error)
    throw UsageError(fmt::format("can't make the folder {}: {}", config.out, error.message()));
  Json run = {{"kind", kKind},       {"schema_version", 1},
              {"status", "running"}, {"config", to_json(config)},
              {"facts", facts},      {"machine", machine_json()},
              {"result", nullptr}};
  fs::remove(config.out + "/" + kNext, error);
  const std::uint64_t parameters =
      facts.is_object() ? facts.value("parameters", std::uint64_t{0}) : 0;
  const std::uint64_t model = size_of(Type::fp32) * parameters;
  reserve_file(config.out + "/" + kReserve, room_for_end(config) + model + model / 8);
  if (!again) {
    folder.write(run);
    return folder;
  }
  const Json before = folder.read();
  if (before["result"].is_object())
    run["previous"] = {
        {"status", before["status"]}, {"config", before["config"]}, {"result", before["result"]}};
  else if (before.contains("previous"))
    run["previous"] = before["previous"];
  write_whole(config.out + "/" + kNext, json_text(run, 1) + "\n");
  return folder;
}

void RunFolder::make_room_for_model() const {
  const std::string reserve = path_ + "/" + kReserve;
  std::error_code none;
  if (fs::exists(reserve, none)) fs::resize_file(reserve, room_for_end(config()), none);
}

void RunFolder::go_on() const {
  const std::string next = path_ + "/" + kNext;
  if (fs::exists(next)) move_into_place(next, path_ + "/" + kRun);
}

std::string RunFolder::checkpoint(std::uint64_t step) const {
  return fmt::format("{}/checkpoints/step-{}", path_, step);
}

Json RunFolder::as_written(const char* name) const {
  const std::string path = path_ + "/" + name;
  Json run = json_in(read_whole(path));
  if (is_run(run)) return run;
  throw UsageError(fmt::format("{} is not a run's: it is damaged or of another kind", path));
}

Json RunFolder::read() const {
  Json run = as_written(kRun);
  if (run["status"] != "running") return run;
  const std::string gone = owner_is_gone(path_);
  if (gone.empty()) return run;
  run["status"] = "failed";
  run["reason"] = gone;
  return run;
}

TrainConfig RunFolder::config() const {
  return config_from(as_written(fs::exists(path_ + "/" + kNext) ? kNext : kRun).at("config"));
}

void RunFolder::add_metrics(const Json& line) const {
  append_line(path_ + "/metrics.jsonl", json_text(line));
}

void RunFolder::write_result(const Json& summary) const {
  Json run = as_written(kRun);
  run["status"] = summary.at("status");
  run["result"] = summary;
  write_end(run);
}

void RunFolder::write_failure(const std::string& status, const std::string& reason) const {
  if (fs::remove(path_ + "/" + kNext)) {
    fs::remove(path_ + "/" + kReserve);
    return;
  }
  Json run = as_written(kRun);
  if (run["status"] != "running") return;
  run["status"] = status;
  run["reason"] = reason;
  write_end(run);
}

void RunFolder::write_end(const Json& run) const {
  fs::remove(path_ + "/" + kReserve);
  write(run);
}

void RunFolder::write(const Json& run) const {
  write_whole(path_ + "/" + kRun, json_text(run, 1) + "\n");
}

}  // namespace lockstep
