// Small trainings whose workers go apart.
#pragma once

#include "strategies/registry.h"
#include "train/runs.h"

namespace lockstep::testing {

inline std::vector<std::string> strategies_that_go_apart() {
  std::vector<std::string> names;
  for (const StrategyRow& row : strategies())
    if (row.goes_apart()) names.emplace_back(row.name);
  return names;
}

inline TrainConfig config_of(const std::string& strategy, int workers = 4) {
  TrainConfig config = small_config();
  config.strategy = strategy;
  config.workers = workers;
  config.epochs = 3;
  config.optimizer = "sgd:lr=0.05";
  return config;
}

// Hogwild's workers share a host's memory.
inline std::string cluster_of(const std::string& strategy, const std::string& more) {
  return fmt::format("sim:{}{}", strategy.starts_with("hogwild") ? "ranks_per_host=4," : "", more);
}

inline std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
}

}  // namespace lockstep::testing
