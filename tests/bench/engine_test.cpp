// Engines of each kind with workers that answer, fail, die or are interrupted.
#include "bench/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>

namespace lockstep::bench {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const Work kWork{Operation::allreduce, "ring", Type::fp32, 4096, 1, 3};

class Interruptible : public ::testing::Test {
 protected:
  Interruptible() : interrupt_(eventfd(0, EFD_CLOEXEC)), folder_(::testing::TempDir()) {}
  ~Interruptible() override { close(interrupt_); }
  void press_ctrl_c() const { eventfd_write(interrupt_, 1); }

  const int interrupt_;
  PrivateFolder folder_;
};

// A rank that is alone: its own values are the sum.
class Alone : public Participant {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  double now() const override {
    using Clock = std::chrono::steady_clock;
    return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
  }
  Bytes buffer(std::size_t bytes) override {
    memory_.resize(bytes);
    return {memory_.data(), bytes};
  }
  void barrier() override {}
  void all_reduce(const Work& work, Values values) override {
    if (work.collective == "die") _exit(3);
    if (work.collective == "fail") throw UsageError("no such collective");
    if (work.collective == "spoil") values.bytes().data[5] ^= std::byte{1};
    if (work.collective == "hang") pause();
  }
  void send(int, Bytes, int) override {}
  void recv(int, Bytes, int) override {}
  std::string chosen(const Work& work, Values) override { return work.collective; }

 private:
  std::vector<std::byte> memory_;
};

// Children that serve as rank 0 and 1, each for itself.
class Children : public Crew {
 public:
  explicit Children(const std::string& pipes) {
    for (int rank = 0; rank < 2; ++rank) {
      pids_.push_back(fork());
      if (pids_.back() == 0) serve_and_exit(pipes, rank);
    }
  }
  ~Children() override {
    for (pid_t pid : pids_) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }
  Verdict verdict() override { return {"the verdict", 3}; }

 private:
  [[noreturn]] static void serve_and_exit(const std::string& pipes, int rank) {
    try {
      serve(pipes, rank, [] { return std::make_unique<Alone>(); });
    } catch (const Error&) {
      _exit(1);
    }
    _exit(0);
  }

  std::vector<pid_t> pids_;
};

class PipedEngineTest : public Interruptible {
 protected:
  PipedEngine engine_{"peer", 2, folder_.path(), interrupt_,
                      [](const std::string& pipes) { return std::make_unique<Children>(pipes); }};
  static Work work(const std::string& collective) {
    Work work = kWork;
    work.collective = collective;
    return work;
  }
};

TEST_F(PipedEngineTest, TakesWorkAfterWorkAndLeavesNoFile) {
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
  for (int i = 0; i < 3; ++i) {
    const Result result = engine_.measure(kWork);
    EXPECT_EQ(result.times_us.size(), 3u);
    EXPECT_EQ(result.wrong, 0u);
    EXPECT_EQ(result.chosen, "ring");
  }
}

TEST_F(PipedEngineTest, CountsWrongElementsOfAllRanksAfterWarmupAndAtTheEnd) {
  EXPECT_EQ(engine_.measure(work("spoil")).wrong, 4u);
}

TEST_F(PipedEngineTest, SaysWhyAWorkerFailed) {
  EXPECT_THAT([&] { engine_.measure(work("fail")); },
              ThrowsMessage<InternalError>(
                  AllOf(HasSubstr("engine peer"), HasSubstr("no such collective"))));
}

TEST_F(PipedEngineTest, SaysWhichWorkerDied) {
  EXPECT_THAT([&] { engine_.measure(work("die")); },
              ThrowsMessage<InternalError>(
                  AllOf(HasSubstr("rank "), HasSubstr("ended without"), HasSubstr("the verdict"))));
}

TEST_F(PipedEngineTest, CtrlCEndsTheWait) {
  press_ctrl_c();
  EXPECT_THROW(engine_.measure(work("hang")), Interrupted);
}

TEST_F(Interruptible, AWorkerThatIsSilentIsNamed) {
  BenchPipes pipes(folder_.path(), 2, interrupt_);
  WorkerPipe first(folder_.path(), 0), second(folder_.path(), 1);
  first.answer("here");
  EXPECT_THAT([&] { pipes.answers().one_from_each(0.05, [](int, const std::string&) {}); },
              ThrowsMessage<InternalError>(HasSubstr("rank 1 was silent")));
}

TEST_F(Interruptible, AWorkerSeesThatTheBenchHasGone) {
  std::optional<BenchPipes> pipes(std::in_place, folder_.path(), 1, interrupt_);
  WorkerPipe worker(folder_.path(), 0);
  pipes->tell_all("work");
  pipes.reset();
  EXPECT_EQ(worker.next(), "work");
  EXPECT_EQ(worker.next(), std::nullopt);
}

TEST_F(Interruptible, AForkedEngineRunsEachWorkInAProcessOfItsOwn) {
  int runs = 0;
  ForkedEngine engine("lockstep", interrupt_, [&](const Work& work) {
    return Result{{static_cast<double>(++runs)}, {}, 0, {}, {}, work.collective};
  });
  EXPECT_THAT(engine.measure(kWork).times_us, ElementsAre(1));
  EXPECT_THAT(engine.measure(kWork).times_us, ElementsAre(1));
  EXPECT_EQ(runs, 0);
}

TEST_F(Interruptible, AForkedEngineReportsErrorsAndDeaths) {
  ForkedEngine fails("lockstep", interrupt_,
                     [](const Work&) -> Result { throw UsageError("a reason"); });
  EXPECT_THAT([&] { fails.measure(kWork); }, ThrowsMessage<InternalError>(HasSubstr("a reason")));
  ForkedEngine dies("lockstep", interrupt_, [](const Work&) -> Result { _exit(1); });
  EXPECT_THAT([&] { dies.measure(kWork); },
              ThrowsMessage<InternalError>(HasSubstr("ended without")));
}

TEST_F(Interruptible, CtrlCEndsAForkedEngine) {
  ForkedEngine hangs("lockstep", interrupt_, [](const Work&) -> Result {
    pause();
    return {};
  });
  press_ctrl_c();
  EXPECT_THROW(hangs.measure(kWork), Interrupted);
}

TEST(PrivateFolder, SaysWhereItCouldNotBeMade) {
  EXPECT_THAT([] { PrivateFolder folder("/nowhere"); },
              ThrowsMessage<UsageError>(AllOf(HasSubstr("/nowhere"), HasSubstr("TMPDIR"))));
}

}  // namespace
}  // namespace lockstep::bench
