// What the ranks of one process share, worked out once from the configuration: the data, which
// worker reads which samples, how many steps. Nothing in it changes while ranks use it; each rank
// takes its own copy of the plan.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "data/open.h"
#include "data/plan.h"
#include "data/reader_pool.h"
#include "strategies/registry.h"
#include "train/cluster_spec.h"
#include "train/config.h"
#include "train/pipelines.h"
#include "transport/lanes.h"

namespace lockstep {

struct PipelineForecast;  // pipeline_forecast.h

// More steps than any run has.
inline constexpr std::uint64_t kOpenEnd = std::uint64_t{1} << 40;

struct Experiment {
  // Completes and checks the configuration (see config.h), and opens the data. `fetch`: see
  // data/open.h; empty: data must be there. UsageError.
  explicit Experiment(TrainConfig, const Fetch& fetch = {});

  TrainConfig config;
  const StrategyRow& strategy;  // that it names
  std::optional<Simulation> simulation;
  Data data;
  double split_s = 0;
  Plan plan;  // of workers, or of pipelines
  // Where the network is cut over workers; none: each has all of it. What was chosen is in the
  // configuration, too.
  std::optional<Pipelines> pipelines;
  // Of a pipeline, where this process has measured the network's blocks: to choose a cut, or to
  // simulate.
  std::shared_ptr<const PipelineForecast> forecast;
  // Of the whole run, of each worker; kOpenEnd: known when it is over (see timetable.h).
  std::uint64_t steps = 0;
  // For the schedule of the learning rate: steps an epoch, of the first; and steps of the run, of
  // workers that take equally many.
  std::uint64_t steps_per_epoch = 1, steps_of_schedule = 0;
  // With --lr-scaling linear: how many batches of one worker a step takes, which is the median of
  // the first epoch, since shards may be uneven. Else 1.
  double lr_scale = 1;

  int cores = 1;  // that all ranks of this machine share: counted before any is bound to its own
  std::unique_ptr<ReaderPool> readers;  // if samples are slow to read
  std::vector<Parameter> parameters;    // of the network, where only sizes count
  // A run that is resumed or replayed must find the same data and the same model's file. Empty
  // where nothing of the kind is kept; model_sha256 also where the model is no file.
  std::string data_sha256, model_sha256;

  // Do all workers take every step together?
  bool in_step() const { return strategy.pace == Pace::together; }
  bool has_open_end() const { return steps == kOpenEnd; }
  bool hollow() const { return simulation && !simulation->numerics; }
  // How many numbers a hollow network has.
  std::size_t hollow_parameters() const { return parameters.back().slice.end(); }
  // Of a worker or, where there are any, of a pipeline.
  std::size_t full_batch(int reader) const { return batches_.at(reader); }
  // How many background lanes a rank needs, and what else.
  Lanes lanes() const;
  // What encoding and decoding take this rank in simulation: see Simulation::coding.
  CodingCost coding_cost(int rank) const;
  // What a rank's line to the others carries, as far as the settings say so.
  std::optional<double> link_bytes_per_s() const;
  // Threads of a worker, chosen if the configuration leaves it open.
  int threads(int cores) const;
  // What the user should know before it starts, a sentence each.
  std::vector<std::string> notices() const;

 private:
  void form_pipelines();

  std::vector<std::size_t> batches_;  // by reader
};

// By worker or, where there are any, by pipeline: --batch each, times the batches that a pipeline's
// step takes; or --global-batch cut into parts that differ by at most one.
std::vector<std::size_t> batch_by_reader(const TrainConfig&);

}  // namespace lockstep
