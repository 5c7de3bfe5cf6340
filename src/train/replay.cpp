#include "train/replay.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "collectives/gather.h"
#include "core/json_text.h"
#include "transport/decorators/witnessed.h"
#include "transport/real_rank.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// What a replay may have otherwise: where it is kept, what is looked at beside the training, and
// how fast messages travel.
constexpr std::array<std::string_view, 12> kFree{
    "out",      "cache",       "record", "replay",          "profile_out", "sample_every",
    "timeline", "tensorboard", "keep",   "target_accuracy", "faults",      "shape"};

std::string file_of(const std::string& folder, int rank) {
  return fmt::format("{}/rank-{}", folder, rank);
}

std::string name_of(int rank) { return fmt::format("rank {}", rank); }

struct Header {
  int rank = 0, ranks = 0, threads = 0;
  std::string run;  // of all its ranks
  std::string data_sha256, model_sha256;
  Json program;
  TrainConfig config;
};
LOCKSTEP_JSON_FIELDS(Header, rank, ranks, threads, run, data_sha256, model_sha256, program)

std::string text_of(const Header& header) {
  nlohmann::ordered_json json = header;
  json["config"] = to_json(header.config);
  return json_text(json);
}

Header header_in(const RecordReader& reader, const std::string& path, int rank) {
  Header h;
  try {
    const Json json = json_in<Json>(reader.header());
    h = json.get<Header>();
    h.config = config_from(json.at("config"));
    h.config.strategy_row();
  } catch (const Json::exception&) {
    throw UsageError(fmt::format("{} does not say what it is the record of", path));
  } catch (const UsageError& e) {
    throw UsageError(fmt::format("{}: {}", path, e.what()));
  }
  if (h.rank != rank) throw UsageError(fmt::format("{} is the record of rank {}", path, h.rank));
  return h;
}

Header header_of(const std::string& folder, int rank) {
  const std::string path = file_of(folder, rank);
  return header_in(RecordReader(path, name_of(rank)), path, rank);
}

// The record of this rank's run is of the same run as that of rank 0, and of one like this.
void check_fits(const Header& recorded, const Header& now) {
  const std::string& folder = now.config.replay;
  check_replayable(recorded.config, now.config);
  if (recorded.run != now.run)
    throw UsageError(
        fmt::format("{} is of another run than {}", file_of(folder, now.rank), file_of(folder, 0)));
  const auto check = [&](const char* what, const auto& was, const auto& is) {
    if (was != is)
      throw UsageError(
          fmt::format("{} is the record of a run with {} {}, so it can't be replayed "
                      "with {}",
                      folder, what, was, is));
  };
  check("so many ranks:", recorded.ranks, now.ranks);
  check("threads a worker:", recorded.threads, now.threads);
  check("data of SHA-256", recorded.data_sha256, now.data_sha256);
  check("a model's file of SHA-256", recorded.model_sha256, now.model_sha256);
}

// The folder of a record, which goes where nothing was kept in it.
struct RecordFolder {
  explicit RecordFolder(const std::string& path) : path(path) {
    std::error_code failure;
    fs::create_directories(path, failure);
    if (failure)
      throw UsageError(fmt::format("can't write the record {}: {}", path, failure.message()));
  }
  ~RecordFolder() { rmdir(path.c_str()); }
  const std::string path;
};

struct Written final : WitnessedRank::Record {
  Written(const std::string& path, const Header& header)
      : folder(path), writer(file_of(path, header.rank), text_of(header)) {}
  Witness& witness(int stream) override { return writer.witness(stream); }
  const RecordFolder folder;
  RecordWriter writer;
};

struct Reread final : WitnessedRank::Record {
  Reread(const std::string& path, const std::string& whose) : reader(path, whose) {}
  Witness& witness(int stream) override { return reader.witness(stream); }
  void stop() override { reader.stop(); }
  RecordReader reader;
};

WorkerOutcome train_witnessed(Rank& rank, const std::shared_ptr<WitnessedRank::Record>& record,
                              const Experiment& experiment, const WorkerOptions& options) {
  WitnessedRank witnessed(rank, record);
  std::exception_ptr failure;
  try {
    return train(witnessed.rank(), experiment, options);
  } catch (const std::exception&) {
    failure = std::current_exception();
  }
  witnessed.fail(failure);
  std::rethrow_exception(failure);
}

WorkerOutcome train_recorded(Rank& rank, const Header& header, const Experiment& experiment,
                             const WorkerOptions& options) {
  const auto record = std::make_shared<Written>(experiment.config.record, header);
  WorkerOutcome outcome = train_witnessed(rank, record, experiment, options);
  record->writer.finish(
      json_text({{"model_sha256", outcome.leads ? outcome.result.model_sha256 : ""}}));
  return outcome;
}

WorkerOutcome train_replayed(Rank& rank, const Header& header, const Experiment& experiment,
                             const WorkerOptions& options) {
  const std::string path = file_of(experiment.config.replay, rank.rank());
  const auto record = std::make_shared<Reread>(path, name_of(rank.rank()));
  check_fits(header_in(record->reader, path, rank.rank()), header);
  WorkerOutcome outcome = train_witnessed(rank, record, experiment, options);
  record->reader.expect_end();
  const auto closing = json_in(record->reader.closing());
  const std::string was = closing.is_object() ? closing.value("model_sha256", "") : "";
  if (outcome.leads && was != outcome.result.model_sha256)
    throw ReplayDiverged(fmt::format(
        "the replay made the same choices and came to another model (SHA-256 {}, was {}): replay "
        "with the same program on the same kind of machine",
        outcome.result.model_sha256, was));
  return outcome;
}

}  // namespace

void check_record_free(const std::string& folder, std::optional<int> rank) {
  const std::string path = rank ? file_of(folder, *rank) : folder;
  if (fs::exists(fs::symlink_status(path)))
    throw UsageError(fmt::format("--record {}: {} exists; give another name", folder, path));
}

RunBefore run_to_replay(const std::string& folder, int rank, const Json& program) {
  Header header = header_of(folder, rank);
  TrainConfig& config = header.config;
  config.replay = folder;
  config.record.clear();
  config.out.clear();
  config.profile_out.clear();
  RunBefore found{config, {}};
  for (const auto& [name, value] : program.items())
    if (const Json was = header.program.is_object() ? header.program.value(name, Json()) : Json();
        was != value)
      found.notices.push_back(
          fmt::format("{} was recorded with {} {}, and this is {}: the replay may go another way",
                      folder, name, was.dump(), value.dump()));
  return found;
}

void check_replayable(const TrainConfig& recorded, const TrainConfig& asked) {
  const auto before = to_json(recorded), after = to_json(asked);
  for (const Setting& setting : settings()) {
    const std::string name(setting.name);
    if (std::ranges::find(kFree, name) == kFree.end() && before.at(name) != after.at(name))
      throw UsageError(
          fmt::format("{} is the record of a run with {} {}, so it can't be replayed with {}",
                      asked.replay, name, before.at(name).dump(), after.at(name).dump()));
  }
}

bool discard_unless_whole(const TrainConfig& config) {
  std::vector<std::string> files;
  for (int r = 0; r < config.ranks(); ++r) files.push_back(file_of(config.record, r));
  if (std::ranges::all_of(files, [](const std::string& file) { return fs::exists(file); }))
    return true;
  for (const std::string& file : files) {
    unlink(file.c_str());
    unlink((file + ".part").c_str());
  }
  rmdir(config.record.c_str());
  return false;
}

void check_records_of_all(const TrainConfig& config) {
  std::string run;
  for (int r = 0; r < config.ranks(); ++r) {
    const Header header = header_of(config.replay, r);
    if (r == 0) run = header.run;
    check_replayable(header.config, config);
    if (header.run != run)
      throw UsageError(fmt::format("{} is of another run than {}", file_of(config.replay, r),
                                   file_of(config.replay, 0)));
  }
}

WorkerOutcome train_repeatably(Rank& rank, const Experiment& experiment,
                               const WorkerOptions& options, const Json& program) {
  const TrainConfig& config = experiment.config;
  const bool records = !config.record.empty(), replays = !config.replay.empty();
  if (!records && !replays) return train(rank, experiment, options);
  std::string run;
  if (rank.rank() == 0)
    run = records ? fmt::format("{:.9f}-{}", calendar_now(), getpid())
                  : header_of(config.replay, 0).run;
  const Header header{rank.rank(),
                      rank.size(),
                      experiment.threads(experiment.cores),
                      text_of_first(rank.peers, run),
                      experiment.data_sha256,
                      experiment.model_sha256,
                      program,
                      config};
  return records ? train_recorded(rank, header, experiment, options)
                 : train_replayed(rank, header, experiment, options);
}

}  // namespace lockstep
