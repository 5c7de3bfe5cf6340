#include "measure/profile.h"

#include <algorithm>

#include "core/error.h"
#include "core/json_text.h"
#include "core/whole_file.h"

namespace lockstep {

nlohmann::ordered_json to_json(const Profile& p) {
  auto ready = nlohmann::ordered_json::array();
  for (const auto& [part, ready_s] : p.ready) ready.push_back({part.begin, part.count, ready_s});
  auto coding = nlohmann::ordered_json::array();
  for (const CodingRate& rate : p.coding)
    coding.push_back({{"compressor", rate.compressor},
                      {"workers", rate.workers},
                      {"encode_s_per_number", rate.encode_s_per_number},
                      {"decode_s_per_number", rate.decode_s_per_number}});
  return {{"kind", "lockstep profile"}, {"model", p.model},         {"batch", p.batch},
          {"threads", p.threads},       {"forward_s", p.forward_s}, {"backward_s", p.backward_s},
          {"apply_s", p.apply_s},       {"ready", ready},           {"coding", coding}};
}

Profile read_profile(const std::string& path) {
  try {
    const auto json = json_in(read_whole(path, "the profile"));
    Profile p{json.at("model"),     json.at("batch"),      json.at("threads"),
              json.at("forward_s"), json.at("backward_s"), json.at("apply_s")};
    bool positive = p.forward_s >= 0 && p.backward_s >= 0 && p.apply_s >= 0 && p.step_s() > 0;
    if (json.contains("ready"))
      for (const auto& part : json.at("ready")) {
        p.ready.push_back({{part.at(0), part.at(1)}, part.at(2)});
        positive = positive && p.ready.back().ready_s >= 0;
      }
    if (json.contains("coding"))
      for (const auto& rate : json.at("coding")) {
        p.coding.push_back({rate.at("compressor"), rate.at("workers"),
                            rate.at("encode_s_per_number"), rate.at("decode_s_per_number")});
        positive = positive && p.coding.back().encode_s_per_number >= 0 &&
                   p.coding.back().decode_s_per_number >= 0;
      }
    if (!positive)
      throw UsageError(fmt::format("the profile {} has times that are not positive", path));
    return p;
  } catch (const nlohmann::json::exception&) {
    throw UsageError(
        fmt::format("{} is not a profile: write one with lockstep train --profile-out", path));
  }
}

void add_rates(Profile& profile, const std::vector<CodingRate>& rates) {
  for (const CodingRate& rate : rates)
    if (std::ranges::find(profile.coding, rate.compressor, &CodingRate::compressor) ==
        profile.coding.end())
      profile.coding.push_back(rate);
}

void Profiler::Latest::add(double seconds) {
  constexpr std::size_t kLatest = 256;
  if (seconds_.size() < kLatest)
    seconds_.push_back(seconds);
  else
    seconds_[next_++ % kLatest] = seconds;
}

double Profiler::Latest::median() const {
  std::vector<double> seconds = seconds_;
  if (seconds.empty()) return 0;
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::ranges::nth_element(seconds, middle);
  return *middle;
}

void Profiler::add(double forward_s, double backward_s, double apply_s,
                   std::span<const SliceTime> ready) {
  forward_.add(forward_s);
  backward_.add(backward_s);
  apply_.add(apply_s);
  for (const auto& [part, ready_s] : ready) {
    Part& known = parts_[part.begin];
    known.count = part.count;
    known.ready.add(ready_s);
  }
}

Profile Profiler::medians() const {
  Profile profile;
  profile.forward_s = forward_.median();
  profile.backward_s = backward_.median();
  profile.apply_s = apply_.median();
  for (const auto& [begin, part] : parts_)
    profile.ready.push_back({{begin, part.count}, part.ready.median()});
  std::ranges::stable_sort(profile.ready, {}, &SliceTime::ready_s);
  return profile;
}

}  // namespace lockstep
