// One training run as it was asked for: the flags of `lockstep train`, typed, with their defaults.
// The table of them is settings.def. Written to run.json and read back by workers and by --resume.
// Specs (NAME:key=value,…) stay text here; the maker of the thing they name reads them.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

struct Carriage;
struct OptimiserTerms;
struct PipelineSchedule;
struct RunTerms;
struct StrategyRow;

struct TrainConfig {
#define SETTING(type, name, standard, flags, resumed, text) type name = standard;
#include "train/settings.def"
#undef SETTING
  // A strategy of one's own that `strategy` may name (see registry.h), of a program that uses the
  // library. Outlives the run, and is not written: a program that resumes gives it again.
  const StrategyRow* own_strategy = nullptr;

  // What is known of the strategy before it is made. UsageError: no such strategy.
  const StrategyRow& strategy_row() const;

  // Are servers parts of workers? Co-located servers are, unless workers go apart: a rank that
  // computes can't answer, so there each server is a rank of its own, on the host of its worker.
  bool servers_within_workers() const;
  int ranks() const { return workers + (servers_within_workers() ? 0 : servers); }
  bool has_pipeline() const { return !pipeline.empty(); }
  // How many read samples of their own: workers, or pipelines.
  int readers() const { return has_pipeline() ? replicas : workers; }
  bool ends_by_epochs() const { return steps == 0 && samples == 0 && seconds == 0; }
  // Servers that are ranks of their own on workers' hosts.
  int guests() const { return server_placement == "colocated" ? ranks() - workers : 0; }
  bool operator==(const TrainConfig&) const = default;
};

// A run that is to go on or to be repeated, as its checkpoint or its record has it.
struct RunBefore {
  TrainConfig config;
  std::vector<std::string> notices;  // a sentence each: what is not as one would expect
};

// A row of settings.def.
struct Setting {
  std::string_view name, flags, text;  // "servers", "--servers"; without a flag: ""
  bool may_change;                     // between a checkpoint and what goes on from it

  // Its long flag, without dashes; empty: none.
  std::string_view flag() const { return flags.empty() ? "" : flags.substr(flags.rfind("--") + 2); }
};
std::span<const Setting> settings();

nlohmann::ordered_json to_json(const TrainConfig&);
// Fields that are missing keep what `base` has. UsageError names a field that is unknown or of the
// wrong type.
TrainConfig config_from(const nlohmann::json&, TrainConfig base = {});

// What a strategy may ask about such a run; the number of steps is left to the caller.
RunTerms run_terms(const TrainConfig&);

// How its numbers travel.
Carriage carriage_of(const TrainConfig&);
// The spec of the optimiser that replicas have: what was asked for, without momentum and weight
// decay where a compressor does these before anything is sent (dgc);
std::string replica_optimiser(const TrainConfig&);
// and what that compressor is to know. Weights and steps of an epoch are left to the caller.
OptimiserTerms optimiser_terms(const TrainConfig&);

// Fills in the number of servers if it is not given: 1, or none; and that of pipelines, from the
// workers. UsageError: no such strategy, or no such pipeline.
void complete(TrainConfig&);
// Fills in what is recorded if it is not given: 10 samples a second and a timeline of the first 500
// steps. Simulations of more than 64 ranks or without numbers would spend their time on records,
// and so have none. REQUIRES: the number of workers is known. UsageError.
void complete_records(TrainConfig&);

// The schedule of its pipelines. REQUIRES: has_pipeline(). UsageError.
PipelineSchedule schedule_of_pipeline(const TrainConfig&);

// UsageError if a flag is wrong, alone or together with others, as far as that can be known without
// opening data or files. REQUIRES: complete().
void check(const TrainConfig&);

}  // namespace lockstep
