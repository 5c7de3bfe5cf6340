// Nobody waits for who reads what is said.
#include "cluster/output.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include "eventually.h"

namespace lockstep {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// A pipe that holds a page.
class Outputs : public ::testing::Test {
 protected:
  Outputs() {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    fcntl(ends[0], F_SETPIPE_SZ, 4096);
    read_end_ = ends[0];
    write_end_ = ends[1];
  }
  ~Outputs() override {
    if (read_end_ >= 0) close(read_end_);
    if (write_end_ >= 0) close(write_end_);
  }
  std::string read_some() const {
    char buffer[4096];
    const ssize_t got = read(read_end_, buffer, sizeof buffer);
    return {buffer, static_cast<std::size_t>(std::max<ssize_t>(got, 0))};
  }
  std::string read_until(const std::string& end) const {
    std::string all;
    while (!all.ends_with(end)) all += read_some();
    return all;
  }

  int read_end_ = -1, write_end_ = -1;
};

TEST_F(Outputs, AStalledReaderGetsAllResultsAndNoOldProgress) {
  Output output(write_end_);
  const std::string much(20000, 'a');
  output.say(much + "\n");
  for (int i = 0; i < 1000; ++i) output.mention("progress\n");
  output.say("the result\n");
  const std::string all = read_until("the result\n");
  EXPECT_THAT(all, StartsWith(much));
  EXPECT_THAT(all, Not(HasSubstr("progress")));
  output.drain(10);
  output.mention("progress\n");
  EXPECT_EQ(read_until("\n"), "progress\n");
}

TEST_F(Outputs, WhatOthersSayIsLeftOutBeyondAMebibyteAndThatIsTold) {
  Output output(write_end_);
  const std::string line = std::string(99999, 'b') + "\n";
  EXPECT_FALSE(output.full());
  for (int i = 0; i < 30; ++i) output.pass_on(line);
  EXPECT_TRUE(output.full());
  std::size_t got = 0;
  while (output.full()) got += read_some().size();
  output.pass_on("more\n");
  const std::string rest = read_until("more\n");
  EXPECT_THAT(rest, EndsWith(" pieces of output left out: nobody read them in time)\nmore\n"));
  EXPECT_LT(got + rest.size(), 15 * line.size());
}

TEST_F(Outputs, AReaderThatLeftIsNoReasonToWait) {
  Output output(write_end_);
  output.say(std::string(20000, 'c'));
  close(read_end_);
  read_end_ = -1;
  output.say("more");
  output.drain(60);
  output.say("and more");  // and no signal
}

TEST_F(Outputs, WhoIsInAHurryLeavesTheRest) {
  const double start = wall_now();
  {
    Output output(write_end_);
    output.say(std::string(20000, 'd'));
    output.hurry(0.05);
  }
  EXPECT_LT(wall_now() - start, 30);
}

}  // namespace
}  // namespace lockstep
