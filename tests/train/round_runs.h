// Small trainings in rounds.
#pragma once

#include "train/runs.h"

namespace lockstep::testing {

inline TrainConfig rounds_config(int workers, const std::string& parameters = "") {
  TrainConfig config = small_config();
  config.workers = workers;
  config.epochs = 2;
  config.strategy = "epoch-average" + (parameters.empty() ? "" : ":" + parameters);
  return config;
}

}  // namespace lockstep::testing
