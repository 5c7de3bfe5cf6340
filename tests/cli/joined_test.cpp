// Ranks that another launcher starts: each process finds its rank in the environment.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <future>

#include "cli/outcome.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

int free_port() {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  EXPECT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), length), 0);
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
  close(listener);
  return ntohs(address.sin_port);
}

class Joined : public ::testing::Test {
 protected:
  std::string key_file(const std::string& name, char byte) {
    const std::string path = folder_.path() + "/" + name;
    std::ofstream(path) << std::string(32, byte);
    chmod(path.c_str(), 0600);
    return path;
  }
  // Rank `rank` of 2 as torchrun would start it.
  std::future<Outcome> rank(int rank, const std::string& flags, const std::string& key) {
    return std::async(std::launch::async, [=] {
      return lockstep(
          "bench allreduce -b 4K -e 4K -i 3 --repeats 2 --json --key-file " + key + flags,
          "RANK=" + std::to_string(rank) + " WORLD_SIZE=2");
    });
  }
  // The same of `train`, one of `size` and in our folder.
  std::future<Outcome> train(int rank, int size, const std::string& flags) {
    return std::async(std::launch::async, [=, this] {
      return lockstep(
          "train --model mlp:width=16,depth=1 --data digits:samples=40,test_samples=10 "
          "--batch 10 --epochs 1 --json --key-file " +
              train_key_ + (rank == 0 ? " --listen " : " --join ") + address_ + " " + flags,
          fmt::format("cd {} && RANK={} WORLD_SIZE={}", folder_.path(), rank, size));
    });
  }
  const bench::PrivateFolder folder_{::testing::TempDir()};
  const std::string train_key_ = key_file("train-key", 't');
  const std::string address_ = "127.0.0.1:" + std::to_string(free_port());
};

TEST_F(Joined, RanksMeetAndRankZeroSpeaks) {
  const std::string key = key_file("key", 'k');
  auto one = rank(1, " --join " + address_, key);
  const Outcome zero = rank(0, " --listen " + address_, key).get();
  const Outcome other = one.get();
  EXPECT_EQ(zero.status, 0) << zero.err;
  EXPECT_EQ(other.status, 0) << other.err;
  EXPECT_THAT(other.out, IsEmpty());
  ASSERT_EQ(zero.json().size(), 1u);
  EXPECT_EQ(zero.json()[0].at("wrong"), 0);
  EXPECT_EQ(zero.json()[0].at("ranks"), 2);
  EXPECT_EQ(zero.json()[0].at("bytes_sent_total"), 8192);
}

TEST_F(Joined, AWrongKeyIsRefused) {
  auto zero = rank(0, " --listen " + address_, key_file("right", 'r'));
  const Outcome wrong = rank(1, " --join " + address_, key_file("wrong", 'w')).get();
  EXPECT_EQ(wrong.status, 2);
  EXPECT_THAT(wrong.err, HasSubstr("refused the job key of rank 1"));
  // The job itself is not disturbed: the right one may still come.
  const Outcome right = rank(1, " --join " + address_, key_file("right", 'r')).get();
  EXPECT_EQ(right.status, 0) << right.err;
  EXPECT_EQ(zero.get().status, 0);
}

TEST_F(Joined, ARunIsKeptWhereRankZeroSays) {
  const std::string flags = "--strategy epoch-average:exchange=files";
  const std::string runs = folder_.path() + "/runs";
  auto zero = train(0, 3, flags);
  // The others start when its folder is there, and would choose another name.
  while (!fs::exists(runs) || fs::is_empty(runs)) poll(nullptr, 0, 5);
  auto one = train(1, 3, flags), manager = train(2, 3, flags);
  const Outcome spoke = zero.get();
  EXPECT_EQ(spoke.status, 0) << spoke.err;
  EXPECT_EQ(one.get().status, 0);
  EXPECT_EQ(manager.get().status, 0);
  EXPECT_EQ(spoke.json().at(0).at("status"), "done") << "the manager had written it by then";
  EXPECT_EQ(std::distance(fs::directory_iterator(runs), {}), 1);
}

TEST_F(Joined, TheTransportThatIsAskedForIsUsed) {
  const std::string flags = "--collective shared --transport ";
  for (const std::string transport : {"shm", "ucx"}) {
    auto zero = train(0, 2, flags + transport), one = train(1, 2, flags + transport);
    // Over ucx nobody sees another's memory.
    EXPECT_EQ(zero.get().status, transport == "ucx" ? 2 : 0) << transport;
    one.get();
  }
  const Outcome threads = train(0, 2, "--transport loopback").get();
  EXPECT_EQ(threads.status, 2);
  EXPECT_THAT(threads.err, HasSubstr("use auto, shm or ucx"));
}

TEST_F(Joined, WhatTheLauncherDecidesIsNotOurs) {
  const Outcome peers = lockstep("bench allreduce --against gloo --key-file " + key_file("k", 'k'),
                                 "RANK=0 WORLD_SIZE=2");
  EXPECT_EQ(peers.status, 2);
  EXPECT_THAT(peers.err, HasSubstr("rank 0 of 2"));
  const Outcome count =
      lockstep("bench allreduce -n 3 --key-file " + key_file("k", 'k'), "RANK=0 WORLD_SIZE=2");
  EXPECT_EQ(count.status, 2);
  EXPECT_THAT(count.err, HasSubstr("started 2 ranks"));
}

}  // namespace
}  // namespace lockstep
