// `--cluster` as people write it.
#include "train/cluster_spec.h"

#include <gmock/gmock.h>

#include <fstream>

#include "core/error.h"
#include "folder.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(ClusterSpec, ReadsNetworkAndCompute) {
  const Simulation s = simulation_from(
      "sim:bandwidth=8Gbps,latency=20us,step=100ms,jitter=0.1,slow=rank3:2.0,rank1:1.5,"
      "ranks_per_host=2,topology=tree:oversubscription=4",
      4, 9);
  EXPECT_DOUBLE_EQ(s.cluster.bandwidth_bytes_per_s, 1e9);
  EXPECT_DOUBLE_EQ(s.cluster.latency_s, 20e-6);
  const Simulation with_headers = simulation_from("sim:bandwidth=8Gbps,payload=0.9,step=1s", 2, 1);
  EXPECT_DOUBLE_EQ(with_headers.cluster.bandwidth_bytes_per_s, 0.9e9);
  EXPECT_EQ(s.cluster.ranks_per_host, 2);
  EXPECT_EQ(s.cluster.ranks, 4);
  EXPECT_DOUBLE_EQ(s.cluster.oversubscription, 4);
  EXPECT_EQ(s.cluster.seed, 9u);
  EXPECT_DOUBLE_EQ(s.compute.step_s, 0.1);
  EXPECT_DOUBLE_EQ(s.compute.slow.at(3), 2.0);
  EXPECT_DOUBLE_EQ(s.compute.slow.at(1), 1.5);
  EXPECT_TRUE(s.numerics);
  EXPECT_FALSE(s.measured);
}

TEST(ClusterSpec, ComputeTimeFollowsRankShareAndLuck) {
  ComputeTime time{0.1, 0, {{3, 2.0}}};
  Rng random(1, 0, 1);
  EXPECT_DOUBLE_EQ(time.of(0, 1, random), 0.1);
  EXPECT_DOUBLE_EQ(time.of(3, 0.5, random), 0.1);
  time.jitter = 0.2;
  double sum = 0;
  for (int i = 0; i < 2000; ++i) sum += time.of(0, 1, random);
  EXPECT_NEAR(sum / 2000, 0.1, 0.002);
}

TEST(ClusterSpec, RefusesWithAnExample) {
  const auto refused = [](const std::string& spec, const std::string& why) {
    EXPECT_THAT([&] { simulation_from(spec, 4, 1); }, ThrowsMessage<UsageError>(HasSubstr(why)))
        << spec;
  };
  refused("sim:slow=3:2.0", "slow=rank3:2.0");
  refused("sim:slow=rank9:2.0", "ranks are 0 to 3");
  refused("sim:jitter=2", "jitter=0.1");
  refused("sim:payload=0", "payload=0.956");
  refused("sim:step=1s,profile=x", "leave one out");
  refused("sim:profile=/nowhere", "can't open the profile");
  refused("sim:speed=1", "speed");
  refused("sim:topology=ring", "star");
  refused("sim:hosts=3", "can't both be");
  EXPECT_THAT([] { cluster_kind("simulated"); }, ThrowsMessage<UsageError>(HasSubstr("sim")));
}

TEST(ClusterSpec, CountsRanksFromHosts) {
  EXPECT_EQ(ranks_in("sim:hosts=3,ranks_per_host=4", 0, 2), 12);
  EXPECT_EQ(ranks_in("sim:ranks_per_host=4", 0, 2), 4);
  EXPECT_EQ(ranks_in("local", 0, 2), 2);
  EXPECT_EQ(ranks_in("netns:hosts=3", 3, 2), 3);
}

TEST(Profile, IsReadAsWritten) {
  const testing::Folder folder;
  const auto path = folder / "profile.json";
  std::ofstream(path) << to_json(Profile{"mlp", 64, 1, 0.01, 0.02, 0.005}).dump();
  const Simulation s = simulation_from("sim:profile=" + path.string(), 2, 1);
  EXPECT_DOUBLE_EQ(s.compute.step_s, 0.035);
  EXPECT_EQ(s.profile->batch, 64u);
  std::ofstream(path) << "{\"model\": 3}";
  EXPECT_THAT([&] { read_profile(path); }, ThrowsMessage<UsageError>(HasSubstr("--profile-out")));
}

}  // namespace
}  // namespace lockstep
