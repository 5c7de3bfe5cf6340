// The sampler against a process whose consumption is known.
#include "measure/sampler.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "transport/real_rank.h"

namespace lockstep {
namespace {

using nlohmann::json;
constexpr double kMiB = 1 << 20;

class Sampling : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "lockstep_sampler_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& name) const { return folder_ + "/" + name; }
  SamplerOptions options() const {
    SamplerOptions options;
    options.path = file("worker-0.jsonl");
    options.header = R"({"kind":"samples"})";
    options.period_s = 0.02;
    options.origin_s = wall_now();
    return options;
  }
  std::vector<json> samples() const {
    std::vector<json> all;
    std::ifstream in(file("worker-0.jsonl"));
    std::string line;
    std::getline(in, line);
    EXPECT_EQ(json::parse(line).at("kind"), "samples");
    while (std::getline(in, line)) all.push_back(json::parse(line));
    return all;
  }
  // Samples while `work` runs, and returns them.
  template <class Work>
  std::vector<json> while_doing(const Work& work) {
    const auto sampler = sampler_of_process(options());
    work();
    sampler->finish();
    return samples();
  }

  std::string folder_;
};

double cpu_now() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// CPU time by the samples: shares times the time they are of.
double cpu_seconds(const std::vector<json>& samples) {
  double sum = 0, before = 0;
  for (const json& s : samples) {
    const double percent =
        s.at("cpu_user_percent").get<double>() + s.at("cpu_system_percent").get<double>();
    sum += percent / 100 * (s.at("t").get<double>() - before);
    before = s.at("t");
  }
  return sum;
}

TEST_F(Sampling, CpuTimeIsWhatWasSpun) {
  double spun = 0;
  const auto seen = while_doing([&] {
    const double start = cpu_now();
    while ((spun = cpu_now() - start) < 0.3) {
    }
  });
  EXPECT_GE(seen.size(), 5u);
  EXPECT_NEAR(cpu_seconds(seen), spun, 0.03);  // a tick of the kernel's clock, and a sample's end
}

TEST_F(Sampling, PrivateAndSharedMemoryAreWhatWasTouched) {
  const std::size_t own = 48 << 20, shared = 24 << 20;
  void* a = mmap(nullptr, own, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  void* b = mmap(nullptr, shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ProcessProbe probe;
  const ProcessFigures before = probe.read();
  std::optional<MemoryPeaks> peaks;
  const auto sampler = sampler_of_process(options());
  memset(a, 1, own);
  memset(b, 1, shared);
  sampler->finish();
  peaks = sampler->peaks();
  munmap(a, own);
  munmap(b, shared);
  const json last = samples().back();
  const auto grown = [&](const char* name, std::uint64_t since) {
    return last.at(name).get<double>() - static_cast<double>(since);
  };
  // The probes' own buffers and the thread's stack come on top; the kernel counts in batches.
  EXPECT_NEAR(grown("private_bytes", before.private_bytes), own, kMiB);
  EXPECT_NEAR(grown("shared_bytes", before.shared_bytes), shared, kMiB);
  ASSERT_TRUE(peaks);
  EXPECT_GE(peaks->private_bytes, last.at("private_bytes").get<std::uint64_t>());
  EXPECT_GE(peaks->shared_bytes, last.at("shared_bytes").get<std::uint64_t>());
}

bool counts_writes(const std::string& folder) {
  constexpr long kTmpfs = 0x01021994, kOverlay = 0x794c7630;
  struct statfs info {};
  return statfs(folder.c_str(), &info) == 0 && info.f_type != kTmpfs && info.f_type != kOverlay;
}

TEST_F(Sampling, DiskIsWhatWasWrittenAndFlushed) {
  if (!counts_writes(folder_)) GTEST_SKIP() << "this file system's writes are not counted";
  const std::string block(8 << 20, 'x');
  const std::uint64_t before = ProcessProbe().read().disk_written_bytes;
  const auto seen = while_doing([&] {
    const int fd = open(file("data").c_str(), O_WRONLY | O_CREAT, 0600);
    ASSERT_EQ(write(fd, block.data(), block.size()), static_cast<ssize_t>(block.size()));
    ASSERT_EQ(fsync(fd), 0);
    close(fd);
  });
  const auto written = seen.back().at("disk_written_bytes").get<std::uint64_t>() - before;
  EXPECT_GE(written, block.size());
  EXPECT_LE(written, block.size() + (256 << 10));  // the samples themselves
}

TEST_F(Sampling, ThreadsAndTheirSwitchesAreCounted) {
  constexpr int kRounds = 300;
  int there[2], back[2];
  ASSERT_EQ(pipe(there), 0);
  ASSERT_EQ(pipe(back), 0);
  const auto before = ProcessProbe().read();
  std::uint64_t threads = 0;
  const auto seen = while_doing([&] {
    char c = 0;
    std::thread other([&] {
      char d = 0;
      while (read(there[0], &d, 1) == 1 && d == 'x') ASSERT_EQ(write(back[1], &d, 1), 1);
    });
    threads = ProcessProbe().read().threads;
    for (int i = 0; i < kRounds; ++i) {  // each sleeps until the other has written
      ASSERT_EQ(write(there[1], "x", 1), 1);
      ASSERT_EQ(read(back[0], &c, 1), 1);
    }
    ASSERT_EQ(write(there[1], "y", 1), 1);
    other.join();
  });
  for (int fd : {there[0], there[1], back[0], back[1]}) close(fd);
  EXPECT_EQ(threads, before.threads + 2);  // the other one and the sampler's
  EXPECT_EQ(seen.back().at("threads").get<std::uint64_t>(), before.threads + 1);
  EXPECT_GT(seen.back().at("switches_voluntary").get<std::uint64_t>(),
            before.switches_voluntary + kRounds);  // twice as many, but for who finds it there
}

TEST_F(Sampling, WhatWasPostedLastIsInTheLastSample) {
  const auto sampler = sampler_of_process(options());
  for (std::uint64_t step = 1; step <= 1000; ++step)
    sampler->post({step, {4 * step, step, 8 * step, 2 * step}, {1, 2, 3, 4}});
  sampler->finish();
  const json last = samples().back();
  EXPECT_EQ(last.at("step"), 1000);
  const json exchange = {{"bytes_sent", 4000},
                         {"bytes_received", 8000},
                         {"messages_sent", 1000},
                         {"messages_received", 2000}};
  EXPECT_EQ(last.at("network").at("exchange"), exchange);
  EXPECT_EQ(last.at("network").at("other").at("messages_received"), 4);
  EXPECT_TRUE(last.at("interface").is_null());
  EXPECT_TRUE(last.at("cgroup").is_null());
}

TEST_F(Sampling, ASecondOneGoesOnWithTheFile) {
  while_doing([] {});
  const std::size_t before = samples().size();
  sampler_of_process(options())->finish();
  std::ifstream in(file("worker-0.jsonl"));
  std::size_t lines = 0, headers = 0;
  for (std::string line; std::getline(in, line); ++lines)
    headers += json::parse(line).contains("kind");
  EXPECT_EQ(headers, 2u);
  EXPECT_GT(lines, before + 2);
}

TEST_F(Sampling, AFolderThatIsNotThereIsNamed) {
  SamplerOptions nowhere = options();
  nowhere.path = folder_ + "/none/worker-0.jsonl";
  EXPECT_THROW(sampler_of_process(nowhere), InternalError);
}

TEST_F(Sampling, AFullDiskIsNamedBeforeAnythingRuns) {
  SamplerOptions full = options();
  full.path = "/dev/full";
  EXPECT_THROW(sampler_of_process(full), InternalError);
}

// A clock that goes only where it is told.
class ToldClock final : public Clock {
 public:
  double now() const override { return now_; }
  void charge(double seconds) override { now_ += seconds; }

 private:
  double now_ = 100;
};

TEST_F(Sampling, StepsAreSampledByTheirOwnClockAtMostOnceAPeriod) {
  ToldClock clock;
  SamplerOptions virtual_time = options();
  virtual_time.origin_s = 100;
  virtual_time.period_s = 0.1;
  const auto sampler = sampler_of_steps(virtual_time, clock);
  for (std::uint64_t step = 1; step <= 10; ++step) {
    clock.charge(0.03);
    if (sampler->due()) sampler->post({step, {}, {}});
  }
  sampler->finish();
  std::vector<int> steps;
  for (const json& s : samples()) {
    steps.push_back(s.at("step"));
    EXPECT_NEAR(s.at("t").get<double>(), 0.03 * steps.back(), 1e-4);
    EXPECT_TRUE(s.at("cpu_user_percent").is_null());
    EXPECT_TRUE(s.at("private_bytes").is_null());
  }
  EXPECT_EQ(steps, (std::vector<int>{1, 5, 9}));
}

}  // namespace
}  // namespace lockstep
