#include "cluster/start.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <map>

#include "cluster/job_key.h"
#include "core/error.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

class StartTest : public testing::Test {
 protected:
  StartTest() {
    close(mkstemp(key_file_.data()));  // mode 0600
    std::ofstream(key_file_) << std::string(32, 'k');
  }
  ~StartTest() override { unlink(key_file_.c_str()); }

  static std::optional<Start> from(std::map<std::string, std::string> variables) {
    return start_from([&](const std::string& name) -> std::optional<std::string> {
      const auto found = variables.find(name);
      if (found == variables.end()) return std::nullopt;
      return found->second;
    });
  }
  void expect_error(std::map<std::string, std::string> variables, const std::string& text) {
    variables["LOCKSTEP_KEY_FILE"] = key_file_;
    EXPECT_THAT([&] { from(variables); }, ThrowsMessage<UsageError>(HasSubstr(text)));
  }

  std::string key_file_ = testing::TempDir() + "lockstep-start-XXXXXX";
};

TEST_F(StartTest, NobodyStartedUs) { EXPECT_FALSE(from({{"MASTER_ADDR", "h"}})); }

TEST_F(StartTest, OurLauncher) {
  const std::string key = random_key();
  const auto start = from({{"RANK", "2"},
                           {"WORLD_SIZE", "4"},
                           {"LOCAL_RANK", "1"},
                           {"MASTER_ADDR", "127.0.0.1"},
                           {"MASTER_PORT", "4711"},
                           {"LOCKSTEP_LAUNCHER_PID", "77"},
                           {"LOCKSTEP_IFACE", "eth0"},
                           {"LOCKSTEP_TRANSPORT", "ucx"},
                           {"LOCKSTEP_KEY_FD", std::to_string(key_descriptor(key))}});
  ASSERT_TRUE(start);
  EXPECT_EQ(start->rank, 2);
  EXPECT_EQ(start->size, 4);
  EXPECT_EQ(start->local_rank, 1);
  EXPECT_EQ(start->address, "127.0.0.1:4711");
  EXPECT_EQ(start->launcher_pid, 77);
  EXPECT_EQ(start->iface, "eth0");
  EXPECT_EQ(start->transport, "ucx");
  EXPECT_EQ(start->key, key);
  EXPECT_FALSE(start->serves_coordinator);
}

TEST_F(StartTest, OtherLaunchers) {
  const struct {
    std::string rank, size, local;
  } launchers[] = {{"RANK", "WORLD_SIZE", "LOCAL_RANK"},
                   {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
                   {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"},
                   {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"}};
  for (const auto& names : launchers) {
    const auto start = from({{names.rank, "3"},
                             {names.size, "5"},
                             {names.local, "1"},
                             {"LOCKSTEP_KEY_FILE", key_file_}});
    ASSERT_TRUE(start) << names.rank;
    EXPECT_EQ(start->rank, 3);
    EXPECT_EQ(start->size, 5);
    EXPECT_EQ(start->local_rank, 1);
    EXPECT_EQ(start->address, "127.0.0.1:29500");
    EXPECT_EQ(start->key, std::string(32, 'k'));
    EXPECT_FALSE(start->serves_coordinator);
  }
  // torchrun's variables come before Slurm's: torchrun may itself run under srun.
  EXPECT_EQ(from({{"RANK", "3"},
                  {"WORLD_SIZE", "5"},
                  {"SLURM_PROCID", "0"},
                  {"SLURM_NTASKS", "2"},
                  {"LOCKSTEP_KEY_FILE", key_file_}})
                ->rank,
            3);
}

TEST_F(StartTest, RankZeroServesTheCoordinator) {
  const auto start = from({{"RANK", "0"},
                           {"WORLD_SIZE", "2"},
                           {"MASTER_ADDR", "node0"},
                           {"MASTER_PORT", "99"},
                           {"LOCKSTEP_KEY_FILE", key_file_}});
  EXPECT_TRUE(start->serves_coordinator);
  EXPECT_EQ(start->address, "node0:99");
  EXPECT_EQ(from({{"RANK", "0"},
                  {"WORLD_SIZE", "2"},
                  {"MASTER_ADDR", "node0"},
                  {"LOCKSTEP_LISTEN", "10.0.0.1"},
                  {"LOCKSTEP_KEY_FILE", key_file_}})
                ->address,
            "10.0.0.1:29500");
}

TEST_F(StartTest, BadValuesAreNamed) {
  expect_error({{"RANK", "abc"}, {"WORLD_SIZE", "2"}},
               "RANK must be a whole number from 0 to 2147483647, not 'abc'");
  expect_error({{"RANK", "1x"}, {"WORLD_SIZE", "2"}},
               "RANK must be a whole number from 0 to 2147483647, not '1x'");
  expect_error({{"RANK", "-1"}, {"WORLD_SIZE", "2"}},
               "RANK must be a whole number from 0 to 2147483647, not '-1'");
  expect_error({{"RANK", "2"}, {"WORLD_SIZE", "2"}},
               "RANK is 2, but WORLD_SIZE is 2: ranks go from 0 to 1");
  expect_error({{"RANK", "0"}, {"WORLD_SIZE", "0"}},
               "WORLD_SIZE must be a whole number from 1 to 1048576, not '0'");
  expect_error({{"RANK", "0"}}, "RANK is set but WORLD_SIZE is not");
  expect_error({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", ""}},
               "SLURM_NTASKS must be a whole number from 1 to 1048576, not ''");
  expect_error({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_PORT", "65536"}},
               "MASTER_PORT must be a whole number from 1 to 65535, not '65536'");
  expect_error({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCKSTEP_LISTEN", "h:x"}},
               "the port of --listen");
  expect_error({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCKSTEP_TRANSPORT", "smoke"}},
               "auto, shm and ucx");
  expect_error({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCKSTEP_KEY_FD", "nine"}},
               "LOCKSTEP_KEY_FD");
}

TEST_F(StartTest, AnotherLauncherNeedsAKeyFile) {
  EXPECT_THAT(
      [] {
        from({{"RANK", "0"}, {"WORLD_SIZE", "1"}});
      },
      ThrowsMessage<UsageError>(AllOf(HasSubstr("--key-file"), HasSubstr("0600"))));
}

}  // namespace
}  // namespace lockstep
