#include "cli/train_flags.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <sstream>

#include "cli/version.h"
#include "core/error.h"
#include "core/options.h"
#include "core/whole_file.h"
#include "parallel/pipeline_schedule.h"
#include "study/toml_text.h"
#include "train/checkpoint.h"
#include "train/cluster_spec.h"
#include "train/replay.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

// The settings over those of `base`. One that says when the run ends replaces all that `base` says
// of that.
TrainConfig set_over(TrainConfig base, nlohmann::json settings) {
  const auto defaults = to_json(TrainConfig{});
  constexpr std::array ends{"epochs", "steps", "samples", "seconds"};
  const auto given = [&](const char* end) { return settings.contains(end); };
  if (std::ranges::any_of(ends, given))
    for (const char* end : ends)
      if (!given(end)) settings[end] = defaults.at(end);
  return config_from(settings, std::move(base));
}

// A folder of its own for each run, with a name that says what it was.
std::string free_folder(const TrainConfig& config) {
  const auto name_in = [](const std::string& spec) {
    return fs::path(std::string(Options::name_in(spec))).stem().string();
  };
  const std::string name = fmt::format("runs/{}-{}-{}w-seed{}", name_in(config.model),
                                       name_in(config.strategy), config.workers, config.seed);
  std::string free = name;
  for (int i = 2; fs::exists(free); ++i) free = fmt::format("{}-{}", name, i);
  return free;
}

// How many workers a run with pipelines has if nobody says: as many as these need. A file that says
// another number than the usual one is believed, and may be refused.
int workers_of_pipelines(const TrainConfig& config) {
  const int k = read_pipeline(config.pipeline).workers;
  if (config.replicas > 0) return k * config.replicas;
  return config.workers == TrainConfig{}.workers && config.workers % k != 0 ? k : config.workers;
}

// It is written at the end, and should not fail then.
void check_profile_out(const std::string& file) {
  const fs::path path = file, folder = path.parent_path();
  if (fs::is_directory(path) || !(folder.empty() || fs::is_directory(folder)))
    throw UsageError(fmt::format("--profile-out {} must be a file in a folder that exists", file));
  if (fs::exists(path)) (void)read_profile(file);  // whose rates of other compressors stay
}

}  // namespace

template <class T>
void TrainFlags::add(CLI::App& command, const std::string& names, const std::string& setting,
                     T& value, const std::string& text) {
  if (names.empty()) return;                      // no flag
  if (setting == "strategy") add_hosts(command);  // beside the other flags of where it runs
  CLI::Option* option = nullptr;
  if constexpr (std::is_same_v<T, bool>) {
    option = command.add_flag(names, value, text);
  } else {
    option = command.add_option(names, value, text)->capture_default_str();
    // A number below zero would wrap round to a huge one.
    if constexpr (std::is_unsigned_v<T>)
      option->check([](const std::string& text) {
        return text.starts_with('-') ? "must be 0 or more, not " + text : std::string();
      });
    // Given twice, the last one counts: scripts add to what people give them.
    if constexpr (!std::is_same_v<T, std::vector<std::string>>) option->take_last();
  }
  options_.emplace(setting, option);
}

TrainFlags::TrainFlags(CLI::App& command) {
  command.add_option("CONFIG", file_, "A TOML file with any of these flags as keys; flags win");
#define SETTING(type, name, standard, flags, resumed, text) \
  add(command, flags, #name, flags_.name, text);
#include "train/settings.def"
#undef SETTING
  command.add_flag("--json", json_, "The summary as JSON on stdout, all else on stderr");
  command.add_flag("--dry-run", dry_run_, "Check everything, say what would run, and stop");
  command.add_flag("--tell", tells_, "Steps on stderr, for `lockstep study`")->group("");
}

void TrainFlags::add_hosts(CLI::App& command) {
  command.add_option("--listen", hosts_.listen, "ADDR[:PORT] of the coordinator; else loopback");
  command.add_option("--join", hosts_.join, "ADDR:PORT of the coordinator, under another launcher");
  command.add_option("--key-file", hosts_.key_file, "The job's 32-byte key, mode 0600");
  command.add_option("--iface", hosts_.iface, "Interface for data: name or CIDR");
}

TrainConfig TrainFlags::over_by_file(TrainConfig base) const {
  if (fs::is_directory(file_))
    throw UsageError(fmt::format(
        "{}: is no TOML file; to go on with a run, give its folder to --resume", file_));
  std::ostringstream text;
  text << toml::json_formatter(study::toml_in(read_whole(file_), file_));
  const auto standard = to_json(flags_);
  nlohmann::json settings = nlohmann::json::object();
  const auto parsed = nlohmann::json::parse(text.str());
  for (const auto& [key, value] : parsed.items()) {
    const std::string setting = setting_named(key);
    const bool a_list = standard.contains(setting) && standard.at(setting).is_array();
    settings[setting] = a_list && !value.is_array() ? nlohmann::json::array({value}) : value;
  }
  try {
    return set_over(std::move(base), std::move(settings));
  } catch (const UsageError& e) {
    throw UsageError(fmt::format("{}: {}", file_, e.what()));
  }
}

// By its own name or by its flag's, with '-' or '_' alike.
std::string TrainFlags::setting_named(std::string key) const {
  std::ranges::replace(key, '_', '-');
  for (const auto& [setting, option] : options_)
    if (option->check_lname(key)) return setting;
  std::ranges::replace(key, '-', '_');
  return key;
}

TrainConfig TrainFlags::over(TrainConfig base) const {
  if (!file_.empty()) base = over_by_file(std::move(base));
  const auto all = to_json(flags_);
  nlohmann::json set = nlohmann::json::object();
  for (const auto& [setting, option] : options_)
    if (option->count() > 0) set[setting] = all.at(setting);
  return set_over(std::move(base), std::move(set));
}

TrainConfig TrainFlags::configured(const std::optional<Start>& start,
                                   std::vector<std::string>* notices) const {
  const bool resumes = !flags_.resume.empty();
  const bool replays = !flags_.replay.empty();
  RunBefore before;
  if (resumes)
    before = run_to_resume(flags_.resume);
  else if (replays)
    before = run_to_replay(flags_.replay, start ? start->rank : 0, program_facts());
  if (notices) *notices = std::move(before.notices);
  const TrainConfig& base = before.config;
  TrainConfig config = over(base);
  config.cache = cache_folder();
  config.resume = base.resume;
  if (options_.at("workers")->count() == 0 && !resumes && config.has_pipeline())
    config.workers = start && config.replicas == 0 ? start->size : workers_of_pipelines(config);
  if (resumes) check_resumable(base, config);
  if (replays && !resumes) check_replayable(base, config);
  complete(config);
  const int servers = config.ranks() - config.workers, hosted = servers - config.guests();
  if (options_.at("workers")->count() == 0 && !resumes && !replays && !config.has_pipeline())
    config.workers = start ? start->size - servers
                           : ranks_in(config.cluster, 0, config.workers + hosted) - hosted;
  check(config);
  if (start && start->size != config.ranks())
    throw UsageError(fmt::format(
        "the launcher started {} ranks, but {} workers and {} servers need {}: leave --workers out",
        start->size, config.workers, config.servers, config.ranks()));
  if (start && config.has_pipeline() && !std::isdigit(config.balance[0]))
    throw UsageError(fmt::format(
        "another launcher started this process as rank {} of {}, and each would measure for itself "
        "where to cut: give the blocks of each stage, e.g. --balance 3,4",
        start->rank, start->size));
  if (start && cluster_kind(config.cluster) != "local")
    throw UsageError(
        fmt::format("another launcher started this process as rank {} of {}: leave "
                    "--cluster out, it starts processes of its own",
                    start->rank, start->size));
  if (start && config.transport == "loopback")
    throw UsageError(
        fmt::format("another launcher started this process as rank {} of {}: --transport loopback "
                    "has all ranks in one process; use auto, shm or ucx",
                    start->rank, start->size));
  if (cluster_kind(config.cluster) == "netns" && !hosts_.iface.empty())
    throw UsageError("--iface: hosts of --cluster netns have one interface only; leave it out");
  if (!config.record.empty())
    check_record_free(no_flag(config.record), start ? std::optional(start->rank) : std::nullopt);
  if (!config.replay.empty() && !start) check_records_of_all(config);
  if (!config.profile_out.empty() && (!start || start->rank == 0))
    check_profile_out(config.profile_out);
  config.out = config.out.empty() ? free_folder(config) : no_flag(config.out);
  return config;
}

}  // namespace lockstep
