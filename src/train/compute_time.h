// How long a step's computation takes in simulation: a number or a profile, made slower or unsteady
// rank by rank. Never measured while simulating, so that runs repeat.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "core/rng.h"

namespace lockstep {

// What one worker's step costs, as `--profile-out` measures it.
struct Profile {
  std::string model;
  std::uint64_t batch = 0;  // samples of the step
  int threads = 1;
  double forward_s = 0, backward_s = 0, apply_s = 0;  // medians

  double step_s() const { return forward_s + backward_s + apply_s; }
};
nlohmann::ordered_json to_json(const Profile&);
Profile read_profile(const std::string& path);  // UsageError

struct ComputeTime {
  double step_s = 0.1;         // forward, backward and optimiser on a full batch
  double jitter = 0;           // relative deviation of a step's time, normal
  std::map<int, double> slow;  // by rank: its factor

  // Of `rank`'s next step on `share` of a full batch (0 to 1, or more). Draws from `random` if
  // there is jitter.
  double of(int rank, double share, Rng& random) const;
};

}  // namespace lockstep
