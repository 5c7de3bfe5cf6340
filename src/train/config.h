// One training run as it was asked for: the flags of `lockstep train`, typed, with their defaults.
// Written to run.json and read back by workers and by --resume. Specs (NAME:key=value,…) stay text
// here; whoever makes the thing they name reads them.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace lockstep {

struct RunTerms;
struct StrategyRow;

struct TrainConfig {
  // Who.
  int workers = 2;
  int servers = -1;  // -1: as the strategy has them, see complete()
  std::string server_placement = "dedicated";
  int threads = 0;  // a worker; 0: cores / ranks, at least 1, in every world
  std::string cluster = "local";
  std::string transport = "auto";
  // How.
  std::string strategy = "all-reduce";
  std::string collective = "auto";
  // What.
  std::string model = "mnist-cnn";
  std::string data = "mnist";
  std::uint64_t limit = 0, test_limit = 0;  // 0: all samples
  std::string split = "random";
  std::string reshard = "never";
  bool balanced_batches = false;
  // Training.
  std::uint64_t batch = 64;        // a worker
  std::uint64_t global_batch = 0;  // 0: batch x workers
  std::uint64_t epochs = 5;
  // In place of epochs, one of: steps of each worker, samples of all, seconds of training time.
  std::uint64_t steps = 0, samples = 0;
  double seconds = 0;
  std::string optimizer = "sgd:lr=0.01,momentum=0.5";
  std::string lr_schedule = "constant";
  std::string lr_scaling = "none";
  double warmup_epochs = 0;
  std::uint64_t seed = 1;
  double target_accuracy = 0;        // 0: none
  std::uint64_t evaluate_every = 0;  // steps; 0: after each epoch
  // Safety and output.
  bool audit = false;
  std::uint64_t checkpoint_every = 0;  // steps; 0: never
  std::uint64_t keep = 2;              // so many of them, the newest; 0: all
  std::string resume;                  // a run's folder, or a checkpoint's
  std::vector<std::string> faults;
  std::string shape;
  std::string profile_out;
  double sample_every = -1;  // seconds; 0: never; -1: see complete_records()
  std::string timeline;      // FIRST-LAST, all or none; empty: see complete_records()
  bool tensorboard = false;
  std::string out;  // the run's folder
  // Where data sets are kept; from the environment, which only cli/ reads.
  std::string cache;
  // A strategy of one's own that `strategy` may name (see registry.h), of a program that uses the
  // library. Outlives the run, and is not written: who resumes gives it again.
  const StrategyRow* own_strategy = nullptr;

  // All that is to be known of the strategy before it is made. UsageError: no such strategy.
  const StrategyRow& strategy_row() const;

  // Are servers parts of workers? Co-located ones are, unless workers go apart: who computes can't
  // answer, so there each is a rank of its own, on the host of its worker.
  bool servers_within_workers() const;
  int ranks() const { return workers + (servers_within_workers() ? 0 : servers); }
  bool ends_by_epochs() const { return steps == 0 && samples == 0 && seconds == 0; }
  // Servers that are ranks of their own on workers' hosts.
  int guests() const { return server_placement == "colocated" ? ranks() - workers : 0; }
  bool operator==(const TrainConfig&) const = default;
};

nlohmann::ordered_json to_json(const TrainConfig&);
// Fields that are missing keep what `base` has. UsageError names a field that is unknown or of the
// wrong type.
TrainConfig config_from(const nlohmann::json&, TrainConfig base = {});

// What a strategy may ask of such a run, but for its steps.
RunTerms run_terms(const TrainConfig&);

// Fills in the number of servers where nobody said: 1, or none. UsageError: no such strategy.
void complete(TrainConfig&);
// Fills in what is recorded where nobody said: 10 samples a second and a timeline of the first 500
// steps; nothing in simulations of more than 64 ranks or without numbers, which would spend their
// time on it. REQUIRES: the number of workers is known. UsageError.
void complete_records(TrainConfig&);

// UsageError if a flag is wrong, alone or together with others; all that can be known without
// opening data or files. REQUIRES: complete().
void check(const TrainConfig&);

}  // namespace lockstep
