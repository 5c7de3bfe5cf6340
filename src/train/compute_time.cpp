#include "train/compute_time.h"

#include <algorithm>

#include "core/error.h"
#include "train/files.h"
#include "train/json_text.h"

namespace lockstep {

nlohmann::ordered_json to_json(const Profile& p) {
  return {{"kind", "lockstep profile"}, {"model", p.model},         {"batch", p.batch},
          {"threads", p.threads},       {"forward_s", p.forward_s}, {"backward_s", p.backward_s},
          {"apply_s", p.apply_s}};
}

Profile read_profile(const std::string& path) {
  try {
    const auto json = json_in(read_whole(path, "the profile"));
    Profile p{json.at("model"),     json.at("batch"),      json.at("threads"),
              json.at("forward_s"), json.at("backward_s"), json.at("apply_s")};
    if (!(p.forward_s >= 0 && p.backward_s >= 0 && p.apply_s >= 0 && p.step_s() > 0))
      throw UsageError(fmt::format("the profile {} has times that are not positive", path));
    return p;
  } catch (const nlohmann::json::exception&) {
    throw UsageError(
        fmt::format("{} is not a profile: write one with lockstep train --profile-out", path));
  }
}

double ComputeTime::of(int rank, double share, Rng& random) const {
  const auto found = slow.find(rank);
  const double factor = found == slow.end() ? 1 : found->second;
  // A step never takes less than a tenth of its usual time, however unlucky the draw.
  const double luck = jitter > 0 ? std::max(0.1, 1 + jitter * random.normal()) : 1;
  return step_s * factor * luck * share;
}

}  // namespace lockstep
