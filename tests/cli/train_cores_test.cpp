// Where the processes of `lockstep train` run.
#include <gmock/gmock.h>
#include <sched.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <set>

#include "cli/outcome.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

cpu_set_t cores_of(int pid) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  sched_getaffinity(pid, sizeof cores, &cores);
  return cores;
}

// Of the workers of the run in that folder: each that is bound to one.
std::set<int> cores_of_workers(const std::string& run) {
  std::set<int> cores;
  for (const auto& process : fs::directory_iterator("/proc")) {
    const int pid = std::atoi(process.path().filename().c_str());
    std::ifstream in(process.path() / "cmdline");
    const std::string command{std::istreambuf_iterator(in), {}};
    if (command.find("train-worker") == std::string::npos || command.find(run) == std::string::npos)
      continue;
    const cpu_set_t bound = cores_of(pid);
    for (int c = 0; c < CPU_SETSIZE; ++c)
      if (CPU_COUNT(&bound) == 1 && CPU_ISSET(c, &bound)) cores.insert(c);
  }
  return cores;
}

TEST(TrainCores, RanksInNamespacesHaveOneEach) {
  const cpu_set_t ours = cores_of(0);
  const int cores = CPU_COUNT(&ours);
  if (geteuid() != 0) GTEST_SKIP() << "network namespaces need root";
  if (cores < 2 || cores > 8) GTEST_SKIP() << "as many workers as cores: " << cores;
  const bench::PrivateFolder folder(::testing::TempDir());
  const std::string run = folder.path() + "/run", n = std::to_string(cores);
  auto outcome = std::async(std::launch::async, [&] {
    return lockstep(
        "train --model mlp:width=16,depth=1 --data digits:samples=400,test_samples=10 --batch 10 "
        "--epochs 100 --threads 1 -n " +
        n + " --cluster netns:hosts=" + n + " --out " + run);
  });
  // After the first epoch all have set themselves up.
  while (!fs::exists(run + "/metrics.jsonl"))
    ASSERT_EQ(outcome.wait_for(std::chrono::milliseconds(5)), std::future_status::timeout)
        << outcome.get().err;
  EXPECT_EQ(cores_of_workers(run).size(), static_cast<std::size_t>(cores));
  EXPECT_EQ(outcome.get().status, 0);
}

}  // namespace
}  // namespace lockstep
