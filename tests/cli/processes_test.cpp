// The bench with ranks as processes: it works, and it ends well when it is stopped or one is
// killed.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "bench/pipes.h"

namespace lockstep {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

// `lockstep bench allreduce` on 2 ranks, its temporary files in a folder of our own.
class RunningBench : public ::testing::Test {
 protected:
  void start(const std::string& iterations) {
    int out[2];
    ASSERT_EQ(pipe2(out, O_CLOEXEC), 0);
    out_ = out[0];
    pid_ = fork();
    if (pid_ == 0) {
      dup2(out[1], STDOUT_FILENO);
      dup2(open((folder_.path() + "/err").c_str(), O_CREAT | O_WRONLY, 0600), STDERR_FILENO);
      setenv("TMPDIR", folder_.path().c_str(), 1);
      execl(LOCKSTEP_PROGRAM, "lockstep", "bench", "allreduce", "-b", "4K", "-e", "4K", "-i",
            iterations.c_str(), "--repeats", "2", "--json", nullptr);
      _exit(127);
    }
    close(out[1]);
  }
  int finish() {
    char byte;
    while (read(out_, &byte, 1) > 0) printed_ += byte;
    close(out_);
    int status = 0;
    waitpid(pid_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  // Until the table's head is there: then all workers have joined.
  void await_head() const {
    while (errors().find("#wrong") == std::string::npos) poll(nullptr, 0, 5);
  }
  std::string errors() const {
    std::ifstream in(folder_.path() + "/err");
    return {std::istreambuf_iterator(in), {}};
  }
  pid_t first_worker() const {
    for (const auto& task :
         std::filesystem::directory_iterator("/proc/" + std::to_string(pid_) + "/task")) {
      std::ifstream children(task.path() / "children");
      pid_t child = 0;
      if (children >> child) return child;
    }
    return -1;
  }

  const bench::PrivateFolder folder_{::testing::TempDir()};
  pid_t pid_ = -1;
  int out_ = -1;
  std::string printed_;
};

TEST_F(RunningBench, MeasuresAndLeavesNothing) {
  start("10");
  EXPECT_EQ(finish(), 0) << errors();
  EXPECT_THAT(printed_, HasSubstr("\"wrong\":0"));
  std::filesystem::remove(folder_.path() + "/err");
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(RunningBench, SignalsEndAllWithTheirStatus) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    start("1000000");
    await_head();
    kill(pid_, signal);
    EXPECT_EQ(finish(), 128 + signal) << errors();
    std::filesystem::remove(folder_.path() + "/err");
  }
}

// Also before its workers have joined, and twice.
TEST_F(RunningBench, CtrlCAtAnyMomentEndsAll) {
  for (const int ms : {300, 600, 900, 1200}) {
    start("1000000");
    poll(nullptr, 0, ms);
    kill(pid_, SIGINT);
    kill(pid_, SIGINT);
    EXPECT_EQ(finish(), 130) << ms << errors();
    std::filesystem::remove(folder_.path() + "/err");
    EXPECT_TRUE(std::filesystem::is_empty(folder_.path())) << ms;
  }
}

TEST_F(RunningBench, AKilledWorkerIsNamed) {
  start("1000000");
  await_head();
  const pid_t worker = first_worker();
  ASSERT_GT(worker, 0);
  kill(worker, SIGKILL);
  EXPECT_EQ(finish(), 128 + SIGKILL);
  EXPECT_THAT(errors(), ContainsRegex("rank [01] .*died of signal 9"));
}

TEST_F(RunningBench, AWorkerThatSomebodyTerminatedFailed) {
  start("1000000");
  await_head();
  const pid_t worker = first_worker();
  ASSERT_GT(worker, 0);
  kill(worker, SIGTERM);
  EXPECT_EQ(finish(), 128 + SIGTERM);
  EXPECT_THAT(errors(), ContainsRegex("rank [01] .*died of signal 15"));
}

}  // namespace
}  // namespace lockstep
