#include "train/pipeline_forecast.h"

#include "core/units.h"
#include "data/loader.h"
#include "parallel/gantt.h"
#include "replica/flat_model.h"
#include "replica/network_part.h"
#include "replica/optimiser.h"
#include "train/learner.h"
#include "train/measure_blocks.h"
#include "train/network_cut.h"

namespace lockstep {
namespace {

torch::Tensor first_samples(const Dataset& set, std::size_t count) {
  Picks picks{{}, 1};
  for (std::size_t i = 0; i < std::min(count, set.size()); ++i)
    picks.indices.push_back(static_cast<std::uint32_t>(i));
  return Loader(
             set, [&](std::uint64_t) { return picks; }, 1)
      .batch(0)
      .x;
}

void scale_times(NetworkCosts& costs, double factor) {
  for (NetworkBlock& block : costs.blocks)
    for (double* time :
         {&block.times.forward_s, &block.times.backward_inputs_s, &block.times.backward_weights_s})
      *time *= factor;
}

void scale_bytes(NetworkCosts& costs, std::uint64_t factor) {
  for (NetworkBlock& block : costs.blocks) {
    block.activation_bytes *= factor;
    block.output_bytes *= factor;
  }
  for (NetworkSkip& skip : costs.skips) skip.bytes *= factor;
  costs.input_bytes *= factor;
}

double total_s(const NetworkCosts& costs) {
  double sum = 0;
  for (const NetworkBlock& block : costs.blocks) sum += block.times.total_s();
  return sum;
}

// What the optimiser keeps of each parameter, beside it and its gradient.
double kept_by_optimiser(const TrainConfig& config) {
  const Options options = optimiser_options(config.optimizer);
  if (options.name() == "adam" || options.name() == "adamw") return 2;
  if (options.name() == "adagrad") return 1;
  return options.has("momentum") && options.number("momentum") == 0 ? 0 : 1;
}

CutTerms terms_of(const Experiment& experiment) {
  CutTerms terms;
  terms.bytes_per_parameter_byte = 2 + kept_by_optimiser(experiment.config);
  if (!experiment.simulation) return terms;
  const SimulatedCluster& cluster = experiment.simulation->cluster;
  const bool local = cluster.hosts() == 1;
  terms.latency_s = local ? cluster.local_latency_s : cluster.latency_s;
  terms.seconds_per_byte =
      1 / (local ? cluster.local_bandwidth_bytes_per_s : cluster.bandwidth_bytes_per_s);
  return terms;
}

}  // namespace

std::string PipelineForecast::in_words(std::size_t batch) const {
  return lockstep::in_words(plan, costs, batch) + gantt(plan.schedule, plan.forecast);
}

PipelineForecast forecast_pipelines(const Experiment& experiment) {
  const TrainConfig& config = experiment.config;
  const PipelineSchedule schedule = schedule_of_pipeline(config);
  const std::size_t full = experiment.full_batch(0);
  const std::size_t micro = schedule.samples_of(full, 0, 0).count;
  const std::size_t measured = experiment.hollow() ? 1 : micro;
  const auto network = network_for(experiment);
  torch::set_num_threads(experiment.threads(experiment.cores));
  PipelineForecast found;
  found.costs = measure_blocks(*network, first_samples(*experiment.data.train, measured),
                               experiment.hollow() ? 1 : 3);
  scale_times(found.costs, static_cast<double>(micro) / static_cast<double>(measured));
  scale_bytes(found.costs, micro / measured);
  const double micros = static_cast<double>(full) / static_cast<double>(micro);
  found.step_s = micros * total_s(found.costs);
  if (experiment.simulation && !experiment.simulation->measured) {
    scale_times(found.costs, experiment.simulation->compute.step_s / found.step_s);
    found.step_s = experiment.simulation->compute.step_s;
  }
  PlanRequest request{config.balance, {}};
  if (!config.memory_limit.empty()) request.memory_limit_bytes = parse_size(config.memory_limit);
  found.plan = plan_pipeline(found.costs, schedule, terms_of(experiment), request);
  return found;
}

StageSizes sizes_of_stages(const Experiment& experiment, const BlockCounts& counts) {
  const auto network = network_for(experiment);
  const NetworkCut cut(*network, counts, first_samples(*experiment.data.train, 1));
  StageSizes sizes;
  for (int stage = 0; stage < cut.stages(); ++stage)
    sizes.parameters.push_back(laid_out(parameters_of(cut.blocks_of(std::span(&stage, 1)))));
  for (const TensorLink& link : cut.links()) {
    std::size_t numbers = 1;
    for (const std::int64_t extent : link.shape) numbers *= static_cast<std::size_t>(extent);
    sizes.links.push_back({link.from, link.to, numbers});
  }
  return sizes;
}

}  // namespace lockstep
