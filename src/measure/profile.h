// How long the parts of one worker's step take: measured by `--profile-out`, read by
// `sim:profile=FILE`.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "core/slices.h"

namespace lockstep {

// When a part of the gradients is final, in seconds since backward began.
struct SliceTime {
  Slice part;
  double ready_s = 0;
};

// What a compressor took, in the mean over all ranks: seconds for each number of every message.
struct CodingRate {
  std::string compressor;  // with all its parameters
  int workers = 1;         // of the run that was measured
  double encode_s_per_number = 0, decode_s_per_number = 0;
};

struct Profile {
  std::string model;
  std::uint64_t batch = 0;  // samples of the step
  int threads = 1;
  double forward_s = 0, backward_s = 0, apply_s = 0;  // medians
  std::vector<SliceTime> ready = {};                  // medians, in the order of time
  std::vector<CodingRate> coding = {};                // one for each compressor

  double step_s() const { return forward_s + backward_s + apply_s; }
};
nlohmann::ordered_json to_json(const Profile&);
Profile read_profile(const std::string& path);  // UsageError
// Takes over the rates of compressors that the profile has none of.
void add_rates(Profile&, const std::vector<CodingRate>&);

// Medians over the latest steps of a rank.
class Profiler {
 public:
  void add(double forward_s, double backward_s, double apply_s, std::span<const SliceTime> ready);
  // The times alone.
  Profile medians() const;

 private:
  class Latest {
   public:
    void add(double seconds);
    double median() const;

   private:
    std::vector<double> seconds_;  // a ring
    std::size_t next_ = 0;
  };
  struct Part {
    std::size_t count = 0;
    Latest ready;
  };
  Latest forward_, backward_, apply_;
  std::map<std::size_t, Part> parts_;  // by where they begin
};

}  // namespace lockstep
