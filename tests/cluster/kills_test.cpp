// kill -9 of any rank at any moment of an all-reduce: all survivors name it, nothing is left.
// LOCKSTEP_KILLS sets how many kills a transport suffers (default 4; 100 for a thorough run).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "cluster/program.h"
#include "core/rng.h"
#include "transport/real_rank.h"

namespace lockstep {
namespace {

using ::testing::ContainsRegex;

constexpr int kRanks = 4;

int kills() {
  const char* asked = std::getenv("LOCKSTEP_KILLS");
  return asked ? std::atoi(asked) : 4;
}

std::size_t shared_memory_files() {
  const std::filesystem::directory_iterator files("/dev/shm");
  return std::distance(begin(files), end(files));
}

// The moment of the kill is random; nothing is awaited by it.
void let_pass(double seconds) {
  const double until = wall_now() + seconds;
  while (wall_now() < until) {
  }
}

class Kills : public ::testing::TestWithParam<const char*> {};

TEST_P(Kills, SurvivorsNameTheDeadAndNothingIsLeft) {
  const std::string how = GetParam();
  if (how == "launch-netns-pairs" && geteuid() != 0) GTEST_SKIP() << "network namespaces need root";
  Rng random(7, 0, purpose_of(how));
  const std::size_t files = shared_memory_files();
  for (int i = 0; i < kills(); ++i) {
    Program program({WORKER_FOR_TESTS, how, std::to_string(kRanks), "all-reduce"});
    ASSERT_TRUE(program.says("is ready", kRanks)) << program.err();
    let_pass(random.uniform() * 0.1);
    const int victim = static_cast<int>(random.below(kRanks));
    kill(program.pids().at(victim), SIGKILL);
    ASSERT_TRUE(eventually([&] {
      for (const int pid : program.pids())
        if (runs(pid)) return false;
      return true;
    })) << "kill "
        << i << " of rank " << victim << ": a survivor still runs";
    EXPECT_EQ(program.wait(), 128 + SIGKILL);
    EXPECT_THAT(program.err(), ContainsRegex(fmt::format(
                                   "lockstep: rank {} .*died of signal 9 .SIGKILL.", victim)));
    for (int r = 0; r < kRanks; ++r) {
      if (r == victim) continue;
      EXPECT_THAT(program.err(), ContainsRegex(fmt::format("\\[{}\\] .*rank {}", r, victim)))
          << "kill " << i;
    }
  }
  EXPECT_EQ(shared_memory_files(), files);
}

INSTANTIATE_TEST_SUITE_P(Over, Kills,
                         ::testing::Values("launch", "launch-ucx", "launch-netns-pairs"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace lockstep
