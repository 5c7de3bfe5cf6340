// Small trainings by the built program, in a folder of their own.
#pragma once

#include "cli/outcome.h"

namespace lockstep {

inline constexpr const char* kSmall =
    "--model mlp:width=16,depth=1 --data digits:samples=400,test_samples=100 --batch 20 --epochs 1 "
    "--collective ring ";

class SmallTraining : public ::testing::Test {
 protected:
  Outcome train(const std::string& arguments) const {
    return lockstep(std::string("train ") + kSmall + arguments);
  }
  std::string at(const std::string& name) const { return folder_.path() + "/" + name; }
  static nlohmann::json read(const std::string& path) {
    return nlohmann::json::parse(std::ifstream(path));
  }
  // Of worker-R.jsonl, whose every line is JSON.
  nlohmann::json last_sample(const std::string& run, int rank) const {
    std::ifstream in(at(run + "/worker-" + std::to_string(rank) + ".jsonl"));
    nlohmann::json last;
    for (std::string line; std::getline(in, line);) last = nlohmann::json::parse(line);
    return last;
  }

  const bench::PrivateFolder folder_{::testing::TempDir()};
};

}  // namespace lockstep
