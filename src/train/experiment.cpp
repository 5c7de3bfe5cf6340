#include "train/experiment.h"

#include <algorithm>
#include <cmath>

#include "compression/registry.h"
#include "core/error.h"
#include "core/options.h"
#include "core/units.h"
#include "measure/machine.h"
#include "replica/flat_model.h"
#include "strategies/carriage.h"
#include "train/checkpoint.h"
#include "train/learner.h"
#include "train/pipeline_forecast.h"
#include "transport/decorators/conditions.h"
#include "transport/real_rank.h"

namespace lockstep {
namespace {

TrainConfig checked(TrainConfig config) {
  complete(config);
  check(config);
  complete_records(config);
  return config;
}

std::optional<Simulation> simulation_of(const TrainConfig& config) {
  if (cluster_kind(config.cluster) != "sim") return {};
  return simulation_from(config.cluster, config.ranks() - config.guests(), config.seed,
                         config.guests());
}

Data data_of(const TrainConfig& config, const Fetch& fetch) {
  OpenRequest request{config.limit, config.test_limit, config.cache, fetch};
  Data data = open_data(config.data, request);
  if (data.train->size() == 0)
    throw UsageError(fmt::format("{} has no training samples", config.data));
  return data;
}

// All workers take a global batch in the same step: from one order of all samples where the split
// leaves open which worker has which, else by share. In rounds each worker is alone with its
// batches, and so it is where batches are balanced over the classes of its own shard.
Cut cut_of(const TrainConfig& config) {
  const StrategyRow& row = config.strategy_row();
  if (config.global_batch == 0 || row.goes_in_rounds()) return Cut::own;
  if (Options::name_in(config.split) == "random" && !row.goes_apart()) return Cut::common;
  return config.balanced_batches ? Cut::own : Cut::by_share;
}

// The time is measured because studies compare what splits cost.
Plan plan_of(const TrainConfig& config, const Dataset& train,
             const std::vector<std::size_t>& batches, double& seconds) {
  const double start = wall_now();
  PlanOptions options{Split(config.split), batches, config.reshard == "epoch",
                      config.balanced_batches, cut_of(config)};
  Plan plan({train.labels(), train.classes()}, options, config.seed);
  plan.steps(0);
  seconds = wall_now() - start;
  return plan;
}

// Until all workers together have had so many samples. An epoch has each sample once.
std::uint64_t steps_for(std::uint64_t samples, std::size_t samples_per_epoch, Plan& plan) {
  const auto epoch = static_cast<int>((samples - 1) / samples_per_epoch);
  const std::uint64_t wanted = samples - std::uint64_t(epoch) * samples_per_epoch;
  std::uint64_t step = 0;
  for (std::uint64_t taken = 0; taken < wanted && step < plan.steps(epoch); ++step)
    for (const std::size_t of_worker : plan.samples(epoch, step)) taken += of_worker;
  return plan.steps_before(epoch) + step;
}

std::uint64_t steps_of(const TrainConfig& config, std::size_t samples_per_epoch, Plan& plan) {
  if (config.seconds > 0) return kOpenEnd;
  if (config.samples > 0) return steps_for(config.samples, samples_per_epoch, plan);
  return config.steps > 0 ? config.steps : plan.steps_before(static_cast<int>(config.epochs));
}

// Of all workers in a step of the first epoch.
std::size_t median_samples(Plan& plan) {
  std::vector<std::size_t> by_step(plan.steps(0));
  for (std::size_t step = 0; step < by_step.size(); ++step)
    for (const std::size_t samples : plan.samples(0, step)) by_step[step] += samples;
  const auto middle = by_step.begin() + static_cast<std::ptrdiff_t>(by_step.size() / 2);
  std::ranges::nth_element(by_step, middle);
  return *middle;
}

// What the strategy has to say about such a run.
std::optional<std::string> notice_of(const TrainConfig& config, std::uint64_t steps) {
  RunTerms terms = run_terms(config);
  terms.steps = steps;
  const auto of_strategy = notice_of_strategy(config.strategy, terms, config.own_strategy);
  return of_strategy
             ? of_strategy
             : notice_of_carriage(carriage_of(config), config.strategy, terms, config.own_strategy);
}

// A notice where a simulation takes coding for free.
std::optional<std::string> coding_is_free(const TrainConfig& config,
                                          const std::optional<Simulation>& simulation) {
  if (!simulation || config.compress.empty()) return {};
  const std::string spec = full_compressor_spec(config.compress);
  if (simulation->coding_of(spec)) return {};
  return fmt::format(
      "encoding and decoding take no virtual time here: to charge them, measure {} with "
      "--profile-out FILE on processes, and give sim:coding=FILE",
      spec);
}

// A notice where gradients that count for different numbers of samples go to servers with an
// optimiser that does not see the difference.
std::optional<std::string> counts_alike(const TrainConfig& config, const Plan& plan) {
  const StrategyRow& row = config.strategy_row();
  const std::string_view optimiser = Options::name_in(config.optimizer);
  if (!row.goes_apart() || row.exchange != Exchange::stepping_servers || optimiser == "sgd" ||
      plan.cut() != Cut::by_share)
    return {};
  const std::vector<std::size_t> samples = plan.samples_by_worker();
  const auto [least, most] = std::ranges::minmax(samples);
  if (most <= least + 1) return {};
  return fmt::format(
      "workers have {} to {} samples, and {} at the servers of {} does not see how large a "
      "gradient "
      "is: every worker's step counts alike, so samples do not; give sgd, or another strategy",
      least, most, optimiser, row.name);
}

}  // namespace

std::vector<std::size_t> batch_by_reader(const TrainConfig& config) {
  const int m = config.readers();
  std::size_t each = config.batch;
  if (config.has_pipeline()) {
    const PipelineSchedule schedule = schedule_of_pipeline(config);
    each *= static_cast<std::size_t>(schedule.replicas) * schedule.batches;
  }
  if (config.global_batch == 0) return std::vector<std::size_t>(m, each);
  std::vector<std::size_t> batches;
  for (int r = 0; r < m; ++r) batches.push_back(chunk(config.global_batch, m, r).count);
  return batches;
}

Experiment::Experiment(TrainConfig asked, const Fetch& fetch)
    : config(checked(std::move(asked))),
      strategy(config.strategy_row()),
      simulation(simulation_of(config)),
      data(data_of(config, fetch)),
      plan(plan_of(config, *data.train, batch_by_reader(config), split_s)),
      cores(this_machine().cores),
      batches_(batch_by_reader(config)) {
  (void)coding_cost(0);  // refuses a compressor that it should have rates of
  Plan counted = plan;
  steps_per_epoch = counted.steps(0);
  steps_of_schedule = steps_of(config, data.train->size(), counted);
  steps = strategy.goes_apart() && config.samples > 0 ? kOpenEnd : steps_of_schedule;
  if (config.lr_scaling == "linear")
    lr_scale = static_cast<double>(median_samples(counted)) / static_cast<double>(config.batch);
  if (config.checkpoint_every > 0 || !config.resume.empty() || !config.record.empty() ||
      !config.replay.empty()) {
    data_sha256 = content_of(data);
    model_sha256 = content_of_model(config.model);
  }
  if (!config.resume.empty()) check_goes_on(config.resume, {steps, data_sha256, model_sha256});
  if (config.has_pipeline()) form_pipelines();
  if (hollow()) {
    parameters = laid_out(network_for(*this)->parameters());
  } else if (data.train->slow() || data.test->slow()) {
    readers = std::make_unique<ReaderPool>(std::max(1, cores / config.ranks()));
  }
}

void Experiment::form_pipelines() {
  const bool by_hand = config.balance != "time" && config.balance != "memory";
  pipelines = Pipelines{schedule_of_pipeline(config), config.replicas, {}};
  if (by_hand && !simulation) {
    // What was chosen before, or is looked at when the network is cut.
    for (const std::string_view part : cut_at_commas(config.balance))
      pipelines->cut.push_back(parse_integer(
          fmt::format("each stage of --balance {}", config.balance), part, 1, 1 << 20));
    if (std::ssize(pipelines->cut) != pipelines->schedule.stages)
      throw UsageError(fmt::format("--balance {} has {} stages, and the pipeline {}",
                                   config.balance, pipelines->cut.size(),
                                   pipelines->schedule.stages));
    return;
  }
  forecast = std::make_shared<const PipelineForecast>(forecast_pipelines(*this));
  pipelines->cut = forecast->plan.counts;
  config.balance = in_words(pipelines->cut);
  if (!simulation) return;
  if (simulation->measured) simulation->compute.step_s = forecast->step_s;
  double all_s = 0;
  for (const StageCosts& stage : forecast->plan.stages) all_s += stage.times.total_s();
  for (const StageCosts& stage : forecast->plan.stages)
    pipelines->shares.push_back({stage.times.forward_s / all_s,
                                 stage.times.backward_inputs_s / all_s,
                                 stage.times.backward_weights_s / all_s});
  if (hollow()) pipelines->sizes = sizes_of_stages(*this, pipelines->cut);
}

Lanes Experiment::lanes() const {
  Lanes lanes;
  // What passes between stages has one of its own.
  if (pipelines) lanes.background = 2;
  return lanes;
}

CodingCost Experiment::coding_cost(int rank) const {
  if (!simulation || config.compress.empty()) return {};
  const auto rate = simulation->coding_of(full_compressor_spec(config.compress));
  if (!rate) return {};
  const auto slow = simulation->compute.slow.find(rank);
  const double factor = slow == simulation->compute.slow.end() ? 1 : slow->second;
  return {factor * rate->encode_s_per_number, factor * rate->decode_s_per_number};
}

std::optional<double> Experiment::link_bytes_per_s() const {
  std::optional<double> least;
  const auto take = [&](double bytes_per_s) {
    least = std::min(least.value_or(bytes_per_s), bytes_per_s);
  };
  if (simulation) {
    const SimulatedCluster& cluster = simulation->cluster;
    take(cluster.hosts() > 1 ? cluster.bandwidth_bytes_per_s : cluster.local_bandwidth_bytes_per_s);
  } else if (cluster_kind(config.cluster) == "netns") {
    const NetnsOptions netns = netns_from(config.cluster);
    const bool one_host = config.ranks() - config.guests() <= netns.ranks_per_host;
    if (netns.bandwidth_bits_per_s > 0 && !one_host) take(netns.bandwidth_bits_per_s / 8);
  }
  const Conditions conditions = conditions_from(config.faults, config.shape, config.ranks());
  if (conditions.link && std::isfinite(conditions.link->bytes_per_second))
    take(conditions.link->bytes_per_second);
  return least;
}

int Experiment::threads(int cores) const {
  // The same in every world, since the bits depend on it.
  return config.threads > 0 ? config.threads : std::max(1, cores / config.ranks());
}

std::vector<std::string> Experiment::notices() const {
  std::vector<std::string> all = data.notices;
  for (const std::string& notice : plan.notices()) all.push_back(notice);
  if (const auto notice = notice_of(config, steps_of_schedule)) all.push_back(*notice);
  if (const auto notice = counts_alike(config, plan)) all.push_back(*notice);
  if (const auto notice = coding_is_free(config, simulation)) all.push_back(*notice);
  if (config.lr_scaling == "linear")
    all.push_back(
        fmt::format("the learning rate is scaled by {:.6g}: a step takes so many batches of {}",
                    lr_scale, config.batch));
  return all;
}

}  // namespace lockstep
