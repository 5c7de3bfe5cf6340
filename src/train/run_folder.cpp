#include "train/run_folder.h"

#include <filesystem>

#include "core/error.h"
#include "measure/machine.h"
#include "train/files.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
constexpr const char* kKind = "lockstep run";

Json machine_json() {
  const Machine m = this_machine();
  return {{"host", m.host},
          {"processor", m.processor},
          {"cores", m.cores},
          {"memory_bytes", m.memory_bytes},
          {"kernel", m.kernel}};
}

}  // namespace

RunFolder RunFolder::create(const TrainConfig& config, const Json& facts) {
  RunFolder folder(config.out);
  const bool again = !config.resume.empty();
  if (fs::exists(config.out + "/run.json") && !again)
    throw UsageError(
        fmt::format("{} holds a run already: choose another --out, or go on with --resume {}",
                    config.out, config.out));
  std::error_code error;
  fs::create_directories(config.out, error);
  if (error)
    throw UsageError(fmt::format("can't make the folder {}: {}", config.out, error.message()));
  folder.write({{"kind", kKind},
                {"schema_version", 1},
                {"status", "running"},
                {"config", to_json(config)},
                {"facts", facts},
                {"machine", machine_json()},
                {"result", nullptr}});
  return folder;
}

std::string RunFolder::checkpoint(std::uint64_t step) const {
  return fmt::format("{}/checkpoints/step-{}", path_, step);
}

Json RunFolder::read() const {
  const std::string path = path_ + "/run.json";
  try {
    Json run = Json::parse(read_whole(path));
    if (run.at("kind") == kKind) return run;
  } catch (const nlohmann::json::exception&) {
  }
  throw UsageError(fmt::format("{} is not a run's: it is damaged or of another kind", path));
}

TrainConfig RunFolder::config() const { return config_from(read().at("config")); }

void RunFolder::add_metrics(const Json& line) const {
  append_line(path_ + "/metrics.jsonl", line.dump());
}

void RunFolder::write_result(const Json& summary) const {
  Json run = read();
  run["status"] = summary.at("status");
  run["result"] = summary;
  write(run);
}

void RunFolder::write_failure(const std::string& status, const std::string& reason) const {
  Json run = read();
  if (run["status"] != "running") return;
  run["status"] = status;
  run["reason"] = reason;
  write(run);
}

void RunFolder::write(const Json& run) const {
  write_whole(path_ + "/run.json", run.dump(1) + "\n");
}

}  // namespace lockstep
