// The commands that a study can run: see Subject in study/plan.h.
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>

#include "cli/bench_flags.h"
#include "cli/commands.h"
#include "cli/train_flags.h"
#include "cli/version.h"
#include "core/error.h"
#include "core/names.h"
#include "core/slices.h"
#include "data/open.h"
#include "models/registry.h"
#include "study/plan.h"

namespace lockstep {
namespace {

using study::Flags;

void parse(CLI::App& application, const std::string& command, const Flags& flags) try {
  std::istringstream names(command);
  std::vector<std::string> words{std::istream_iterator<std::string>(names), {}};
  for (const std::string& word : study::words_of(flags)) words.push_back(word);
  std::reverse(words.begin(), words.end());  // CLI11 takes them from the end
  application.parse(words);
} catch (const CLI::ParseError& e) {
  throw UsageError(e.what());
}

// All but those that say where a run is kept and what it prints (of a profile all runs would write
// the same file), or that a study decides itself.
std::vector<std::string> flags_of(const CLI::App& command) {
  static const std::set<std::string> ours = {"help",    "out",  "profile-out", "json",
                                             "dry-run", "tell", "resume",      "seed",
                                             "listen",  "join", "key-file"};
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    const auto &longs = option->get_lnames(), &shorts = option->get_snames();
    for (const std::string& name : longs.empty() ? shorts : longs)
      if (!ours.contains(name)) names.push_back(name);
  }
  return names;
}

// Networks are only built when they are trained, so their names are looked at here.
void check_model(const std::string& spec) {
  if (names_file(spec)) {
    if (!std::filesystem::exists(spec)) throw UsageError("there is no file " + spec);
    return;
  }
  Options::with_defaults(spec, row_named("model", Options::name_in(spec), models()).defaults);
}

class TrainSubject : public study::Subject {
 public:
  std::string command() const override { return "train"; }
  std::string commit() const override { return program_commit(); }
  bool seeded() const override { return true; }

  std::vector<std::string> flags() const override {
    CLI::App application;
    CLI::App* command = application.add_subcommand("train");
    const TrainFlags flags(*command);
    return flags_of(*command);
  }

  nlohmann::json settings(const Flags& flags) const override {
    const TrainConfig config = configured(flags);
    check_model(config.model);
    nlohmann::json settings = to_json(config);
    const nlohmann::json standard = to_json(TrainConfig{});
    for (const auto& [name, value] : standard.items())
      if (settings[name] == value || name == "out" || name == "cache") settings.erase(name);
    // What the flags name may change, and the program too.
    settings["content"] = {{"program", program_source()},
                           {"data", content_of_data(config)},
                           {"model", content_of_model(config.model)}};
    return settings;
  }

  Flags alone(const Flags& flags) const override {
    Flags alone;
    for (const char* kept : {"model", "data", "limit", "batch", "optimizer", "threads"})
      if (const auto given = flags.find(kept); given != flags.end()) alone.insert(*given);
    if (const auto all = flags.find("global-batch"); all != flags.end()) {
      const TrainConfig config = configured(flags);
      alone["batch"] = {{std::to_string(chunk(config.global_batch, config.workers, 0).count)}};
    }
    alone.try_emplace("threads", study::Given{{"1"}});
    alone["workers"] = {{"1"}};
    alone["steps"] = {{"40"}};
    alone["test-limit"] = {{"1"}};
    return alone;
  }

 private:
  TrainConfig configured(const Flags& flags) const {
    CLI::App application;
    const TrainFlags train(*application.add_subcommand("train"));
    parse(application, command(), flags);
    return train.configured({});
  }

  // Opened once: a study has many runs and few data sets, and they may have to be fetched.
  const std::string& content_of_data(const TrainConfig& config) const {
    const auto what = std::tuple(config.data, config.limit, config.test_limit);
    std::string& content = contents_[what];
    if (content.empty()) {
      content = content_of(
          open_data(config.data, {config.limit, config.test_limit, config.cache, fetch_data}));
    }
    return content;
  }

  mutable std::map<std::tuple<std::string, std::uint64_t, std::uint64_t>, std::string> contents_;
};

class BenchSubject : public study::Subject {
 public:
  explicit BenchSubject(std::string operation) : operation_(std::move(operation)) {}
  std::string command() const override { return "bench " + operation_; }
  std::string commit() const override { return program_commit(); }
  bool seeded() const override { return false; }

  std::vector<std::string> flags() const override {
    CLI::App application;
    CLI::App* command = application.add_subcommand("bench");
    const BenchFlags flags(*command);
    return flags_of(*command->get_subcommand(operation_));
  }

  nlohmann::json settings(const Flags& flags) const override {
    CLI::App application;
    const BenchFlags bench(*application.add_subcommand("bench"));
    parse(application, command(), flags);
    bench.plan();
    nlohmann::json settings = flags;
    settings["content"] = {{"program", program_source()}};
    return settings;
  }

  Flags alone(const Flags&) const override {
    throw UsageError("step=alone is a training step's, and " + command() + " has none");
  }

 private:
  const std::string operation_;
};

}  // namespace

std::unique_ptr<study::Subject> subject_named(const std::string& command) {
  if (command == "train") return std::make_unique<TrainSubject>();
  if (command == "bench allreduce" || command == "bench p2p")
    return std::make_unique<BenchSubject>(command.substr(command.find(' ') + 1));
  constexpr std::string_view kCommands[] = {"train", "bench allreduce", "bench p2p"};
  throw_unknown("command to study", command, kCommands);
}

}  // namespace lockstep
