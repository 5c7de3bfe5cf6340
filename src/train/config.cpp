#include "train/config.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "collectives/all_reduce.h"
#include "core/error.h"
#include "core/names.h"
#include "core/units.h"
#include "data/split.h"
#include "measure/timeline.h"
#include "parallel/pipeline_schedule.h"
#include "replica/optimiser.h"
#include "replica/schedule.h"
#include "strategies/carriage.h"
#include "strategies/registry.h"
#include "train/cluster_spec.h"
#include "transport/decorators/conditions.h"

namespace lockstep {
namespace {

// Takes one field, if the table has it.
template <class T>
void read_field(const nlohmann::json& json, const char* name, T& value) {
  const auto found = json.find(name);
  if (found == json.end()) return;
  try {
    found->get_to(value);
  } catch (const nlohmann::json::exception&) {
    throw UsageError(fmt::format("the configuration's {} can't be {}", name, found->dump()));
  }
}

constexpr int kMostRanks = 4096;

void one_of(std::string_view flag, const std::string& value,
            std::initializer_list<std::string_view> valid) {
  index_named(flag, value, {valid.begin(), valid.size()});
}

// Is it simulated without numbers?
bool is_hollow(const TrainConfig& config) {
  return cluster_kind(config.cluster) == "sim" &&
         !simulation_from(config.cluster, config.ranks() - config.guests(), config.seed,
                          config.guests())
              .numerics;
}

// How many ranks average a stage of a pipeline.
int replicas_of_a_stage(const TrainConfig& config) {
  return std::max(1, config.replicas) * schedule_of_pipeline(config).replicas;
}

void check_servers(const TrainConfig& config) {
  const StrategyRow& row = config.strategy_row();
  one_of("server placement", config.server_placement, {"dedicated", "colocated"});
  if (!row.has_servers() && config.servers > 0)
    throw UsageError(fmt::format("--servers {}: {} has no servers", config.servers, row.name));
  if (row.has_servers() && config.servers < 1)
    throw UsageError(fmt::format("--servers {}: {} needs at least 1", config.servers, row.name));
  if (config.server_placement == "colocated" && config.servers > config.workers)
    throw UsageError(
        fmt::format("--servers {}: only {} workers can have one each, or use --server-placement "
                    "dedicated",
                    config.servers, config.workers));
}

void check_ranks(const TrainConfig& config) {
  if (config.workers < 1 || config.ranks() > kMostRanks)
    throw UsageError(
        fmt::format("--workers must be from 1 to {}, not {}", kMostRanks, config.workers));
  constexpr int kMostThreads = 1024;
  if (config.threads < 0 || config.threads > kMostThreads)
    throw UsageError(
        fmt::format("--threads must be 0 to {}, not {}", kMostThreads, config.threads));
  one_of("transport", config.transport, {"auto", "shm", "ucx", "loopback"});
  const std::string kind = cluster_kind(config.cluster);
  if (kind != "local" && config.transport == "loopback")
    throw UsageError(fmt::format("--transport loopback does not work over --cluster {}", kind));
  if (kind == "sim" && config.transport != "auto")
    throw UsageError("--cluster sim brings its own transport: leave --transport out");
}

void check_end(const TrainConfig& config) {
  if (!(config.seconds >= 0 && std::isfinite(config.seconds)))
    throw UsageError(
        fmt::format("--seconds must be a time of training above 0, not {}", config.seconds));
  const int given = (config.steps > 0) + (config.samples > 0) + (config.seconds > 0);
  if (given > 1)
    throw UsageError(
        "a run ends once: give one of --epochs, --steps, --samples and --seconds, not several");
  if (config.epochs < 1 && given == 0)
    throw UsageError("--epochs must be at least 1, or give --steps, --samples or --seconds");
  constexpr std::uint64_t kMost = std::numeric_limits<int>::max();
  for (const auto& [flag, value] :
       {std::pair("epochs", config.epochs), {"steps", config.steps}, {"samples", config.samples}})
    if (value > kMost)
      throw UsageError(fmt::format("--{} must be at most {}, not {}", flag, kMost, value));
  if (config.seconds > 0 && Options::name_in(config.lr_schedule) == "cosine")
    throw UsageError(
        "--lr-schedule cosine ends with the run's last step, which --seconds leaves open: give "
        "--epochs, --steps or --samples, or another schedule");
}

void check_training(const TrainConfig& config) {
  // Below zero they have wrapped round.
  constexpr std::uint64_t kMostSamples = std::uint64_t{1} << 40;
  if (config.batch < 1 || config.batch > kMostSamples)
    throw UsageError(fmt::format("--batch must be 1 to {}", kMostSamples));
  if (config.global_batch > kMostSamples)
    throw UsageError(fmt::format("--global-batch must be at most {}", kMostSamples));
  if (config.global_batch > 0 && config.global_batch < std::uint64_t(config.readers()))
    throw UsageError(fmt::format("--global-batch {} is less than a sample for each of {} {}",
                                 config.global_batch, config.readers(),
                                 config.has_pipeline() ? "pipelines" : "workers"));
  one_of("lr scaling", config.lr_scaling, {"none", "linear"});
  one_of("reshard", config.reshard, {"never", "epoch"});
  if (!(config.warmup_epochs >= 0)) throw UsageError("--warmup-epochs can't be negative");
  if (!(config.target_accuracy >= 0 && config.target_accuracy <= 1))
    throw UsageError(
        fmt::format("--target-accuracy is a share, e.g. 0.98, not {}", config.target_accuracy));
  const Split split(config.split);
  const Options optimiser = optimiser_options(config.optimizer);
  ScheduleInput input;
  input.base_lr = optimiser.number("lr");
  input.warmup_epochs = config.warmup_epochs;
  const Schedule schedule(config.lr_schedule, input);
}

void check_carriage(const TrainConfig& config) {
  const Carriage carriage = carriage_of(config);
  check_carriage(carriage, config.strategy, run_terms(config), config.own_strategy);
  if (takes_over_sgd(carriage) && optimiser_options(config.optimizer).number("dampening") != 0)
    throw UsageError(fmt::format(
        "--compress {} does not work with dampening: it repeats SGD's momentum without; leave it "
        "out",
        config.compress));
}

// Refuses to scale a rate that fits any number of workers already.
void check_scaling(const TrainConfig& config) {
  if (config.lr_scaling != "linear") return;
  if (config.global_batch > 0)
    throw UsageError(
        fmt::format("--lr-scaling linear scales the rate with the samples of a step, which "
                    "--global-batch {} keeps the same for any number of workers: leave one out",
                    config.global_batch));
  const StrategyRow& row = config.strategy_row();
  if (row.steps == Steps::added)
    throw UsageError(
        fmt::format("--lr-scaling linear does not work with {}: it adds up the steps of all "
                    "workers, so its model moves by as many times the rate already; leave it out",
                    row.name));
}

// Which flags do not go with a pipeline, and why.
void check_beside_pipeline(const TrainConfig& config) {
  const auto refuse = [&](bool given, const std::string& flag, const std::string& why) {
    if (given) throw UsageError(fmt::format("{} does not work with --pipeline: {}", flag, why));
  };
  const StrategyRow& row = config.strategy_row();
  const std::string strategy = fmt::format("--strategy {}", row.name);
  refuse(row.has_servers(), strategy,
         "servers would need the stages of all workers; use all-reduce");
  refuse(row.pace != Pace::together, strategy,
         "the stages of a network take every step together; use all-reduce");
  refuse(row.name != "all-reduce", strategy,
         "stages are averaged over pipelines in every step; use all-reduce");
  refuse(!config.profile_out.empty(), "--profile-out",
         "a profile is of a whole step on one worker; measure it without");
  refuse(!config.record.empty() || !config.replay.empty(), "--record or --replay",
         "nothing depends on arrival");
}

void check_pipeline(const TrainConfig& config) {
  const auto refuse_alone = [&](bool given, const char* flag) {
    if (given) throw UsageError(fmt::format("{} goes with --pipeline: give both, or none", flag));
  };
  if (!config.has_pipeline()) {
    refuse_alone(config.replicas != 0, "--replicas");
    refuse_alone(config.balance != "time", "--balance");
    refuse_alone(!config.memory_limit.empty(), "--memory-limit");
    return;
  }
  const PipelineSchedule schedule = schedule_of_pipeline(config);
  const int k = schedule.workers;
  if (config.replicas < 0 || config.workers != k * config.replicas)
    throw UsageError(
        config.replicas > 0
            ? fmt::format("--pipeline {} with --replicas {} takes {} workers, not {}: leave "
                          "--workers out",
                          k, config.replicas, k * config.replicas, config.workers)
            : fmt::format("--workers {}: a pipeline of {} workers needs {}, or a multiple of it",
                          config.workers, k, k));
  check_beside_pipeline(config);
  if (!config.memory_limit.empty()) parse_size(config.memory_limit);
  const auto batches = static_cast<std::uint64_t>(schedule.replicas) * schedule.batches;
  const auto micros = static_cast<std::uint64_t>(schedule.micros) / schedule.batches;
  const std::uint64_t batch =
      config.global_batch > 0 ? config.global_batch / config.replicas / batches : config.batch;
  if (batch < micros)
    throw UsageError(fmt::format(
        "a batch of {} samples can't be cut into {} micro-batches: give a larger batch, or fewer "
        "microbatches",
        batch, micros));
}

void check_records(const TrainConfig& config) {
  constexpr double kShortest = 1e-3, kLongest = 1e6;
  const double every = config.sample_every;
  if (every != -1 && every != 0 && !(every >= kShortest && every <= kLongest))
    throw UsageError(
        fmt::format("--sample-every {}: seconds between samples, from {} to {:.0f}, or 0 for none",
                    every, kShortest, kLongest));
  if (!config.timeline.empty()) step_window(config.timeline);
}

// In rounds a task is an epoch's shard, so settings that count steps of the run have no meaning.
void check_rounds(const TrainConfig& config) {
  const StrategyRow& row = config.strategy_row();
  if (!row.goes_in_rounds()) return;
  const auto refuse = [&](bool given, const char* flag, const char* why) {
    if (given) throw UsageError(fmt::format("{} does not work with {}: {}", flag, row.name, why));
  };
  refuse(config.steps > 0, "--steps", "it trains whole epochs; give --epochs");
  refuse(config.samples > 0, "--samples", "it trains whole epochs; give --epochs");
  refuse(config.seconds > 0, "--seconds", "it trains whole epochs; give --epochs");
  refuse(config.evaluate_every > 0, "--evaluate-every", "there is a model after each epoch only");
  refuse(config.checkpoint_every > 0, "--checkpoint-every", "its runs can't be resumed");
  refuse(!config.resume.empty(), "--resume", "its runs can't be resumed");
  refuse(!config.profile_out.empty(), "--profile-out", "measure a step with another strategy");
}

// Can such a run be recorded or replayed, if it is to be?
void check_repeatable(const TrainConfig& config) {
  const bool records = !config.record.empty();
  if (!records && config.replay.empty()) return;
  const std::string flag = records ? "--record" : "--replay";
  const StrategyRow& row = config.strategy_row();
  if (records && !config.replay.empty())
    throw UsageError("--record and --replay: what is replayed is recorded already; give one");
  if (cluster_kind(config.cluster) == "sim")
    throw UsageError(
        fmt::format("{}: a simulated run is repeated by its seed alone; leave it out", flag));
  if (row.goes_in_rounds())
    throw UsageError(fmt::format(
        "{} does not work with {}: its manager gives tasks up by the clock", flag, row.name));
  if (!row.goes_apart())
    throw UsageError(
        fmt::format("{} is for strategies whose workers go apart; with {} they keep in step, and "
                    "nothing depends on arrival; leave it out",
                    flag, row.name));
  if (!config.resume.empty())
    throw UsageError(fmt::format(
        "{} does not work with --resume: a record begins with the run's first step", flag));
  for (const Fault& fault : conditions_from(config.faults, config.shape, config.ranks()).faults)
    if (fault.kind == Fault::Kind::kill)
      throw UsageError(fmt::format(
          "{} does not work with --fault kill: a rank that dies leaves no record", flag));
}

// Every setting is written as JSON, which is UTF-8. The run's folder alone is never read back.
void check_text(const TrainConfig& config) {
  const auto settings = to_json(config);
  for (const auto& [setting, value] : settings.items()) try {
      if (setting != "out") (void)value.dump();
    } catch (const nlohmann::json::exception&) {
      throw UsageError(fmt::format("{} is not UTF-8: give a name without other bytes", setting));
    }
}

}  // namespace

std::span<const Setting> settings() {
  constexpr bool stays = false, changes = true;
  static constexpr Setting kSettings[] = {
#define SETTING(type, name, standard, flags, resumed, text) {#name, flags, text, resumed},
#include "train/settings.def"
#undef SETTING
  };
  return kSettings;
}

nlohmann::ordered_json to_json(const TrainConfig& config) {
  nlohmann::ordered_json json;
#define SETTING(type, name, standard, flags, resumed, text) json[#name] = config.name;
#include "train/settings.def"
#undef SETTING
  return json;
}

TrainConfig config_from(const nlohmann::json& json, TrainConfig base) {
  if (!json.is_object()) throw UsageError("a configuration must be a table of flags and values");
#define SETTING(type, name, standard, flags, resumed, text) read_field(json, #name, base.name);
#include "train/settings.def"
#undef SETTING
  for (const auto& [name, value] : json.items()) row_named("setting", name, settings());
  return base;
}

const StrategyRow& TrainConfig::strategy_row() const {
  return strategy_named(strategy, own_strategy);
}

bool TrainConfig::servers_within_workers() const {
  return server_placement == "colocated" && !strategy_row().goes_apart();
}

void complete(TrainConfig& config) {
  if (config.servers < 0) config.servers = config.strategy_row().has_servers() ? 1 : 0;
  if (!config.has_pipeline() || config.replicas != 0) return;
  const int k = read_pipeline(config.pipeline).workers;
  if (config.workers % k == 0) config.replicas = config.workers / k;
}

PipelineSchedule schedule_of_pipeline(const TrainConfig& config) {
  const PipelineRequest request = read_pipeline(config.pipeline);
  return pipeline_schedule(request.spec, request.workers);
}

void complete_records(TrainConfig& config) {
  constexpr int kFewRanks = 64;
  const bool large =
      cluster_kind(config.cluster) == "sim" && (config.ranks() > kFewRanks || is_hollow(config));
  if (config.sample_every < 0) config.sample_every = large ? 0 : 0.1;
  if (config.timeline.empty()) config.timeline = large ? "none" : "1-500";
}

RunTerms run_terms(const TrainConfig& config) {
  const std::string_view optimiser = Options::name_in(config.optimizer);
  RunTerms terms;
  terms.workers = config.has_pipeline() ? replicas_of_a_stage(config) : config.workers;
  terms.servers = config.servers;
  terms.colocated = config.servers_within_workers();
  terms.audit = config.audit;
  terms.optimizer = config.optimizer;
  terms.plain_sgd =
      optimiser == "sgd" && optimiser_options(config.optimizer).number("weight_decay") == 0;
  terms.needs_whole_layers = optimiser == "lars";
  terms.transport = config.transport;
  terms.shaped = !config.shape.empty();
  terms.hollow = is_hollow(config);
  terms.recorded = !config.record.empty() || !config.replay.empty();
  return terms;
}

Carriage carriage_of(const TrainConfig& config) {
  return {config.compress,         config.overlap, config.bucket_mib,
          config.first_bucket_mib, config.buckets, config.collective};
}

std::string replica_optimiser(const TrainConfig& config) {
  if (!takes_over_sgd(carriage_of(config))) return config.optimizer;
  return fmt::format("sgd:lr={}", optimiser_options(config.optimizer).text("lr"));
}

OptimiserTerms optimiser_terms(const TrainConfig& config) {
  OptimiserTerms terms;
  terms.workers = config.has_pipeline() ? replicas_of_a_stage(config) : config.workers;
  if (!takes_over_sgd(carriage_of(config))) return terms;
  const Options sgd = optimiser_options(config.optimizer);
  terms.momentum = sgd.number("momentum");
  terms.nesterov = sgd.flag("nesterov");
  terms.weight_decay = sgd.number("weight_decay");
  return terms;
}

void check(const TrainConfig& config) {
  check_text(config);
  check_servers(config);
  check_ranks(config);
  check_pipeline(config);
  check_strategy(config.strategy, run_terms(config), config.own_strategy);
  all_reduce_named(config.collective);
  check_end(config);
  check_training(config);
  check_carriage(config);
  check_scaling(config);
  check_records(config);
  check_rounds(config);
  conditions_from(config.faults, config.shape, config.ranks());
  check_repeatable(config);
  if (config.audit && is_hollow(config))
    throw UsageError("--audit checks numbers, and numerics=off has none: leave one out");
}

}  // namespace lockstep
