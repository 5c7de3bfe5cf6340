// Cuts are as good as the best of all cuts, which small networks can be asked for one by one.
#include "parallel/partition.h"

#include <gmock/gmock.h>

#include <functional>

#include "core/rng.h"
#include "parallel/refusal.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;

NetworkCosts random_network(Rng& rng, int blocks) {
  NetworkCosts network;
  network.input_bytes = rng.below(50);
  for (int b = 0; b < blocks; ++b)
    network.blocks.push_back({fmt::format("block{}", b),
                              // Few different times, so that cuts tie.
                              {1.0 + rng.below(4), 1.0 + rng.below(4), 1.0 * rng.below(3)},
                              rng.below(100),
                              rng.below(100),
                              rng.below(20)});
  for (std::uint64_t i = rng.below(4); i > 0; --i) {
    const int from = static_cast<int>(rng.below(blocks));
    const int to = static_cast<int>(rng.below(blocks));
    if (from < to) network.skips.push_back({fmt::format("skip{}", i), from, to, rng.below(20)});
  }
  return network;
}

void for_all_cuts(int blocks, int stages, BlockCounts& begun,
                  const std::function<void(const BlockCounts&)>& visit) {
  if (stages == 1) {
    begun.push_back(blocks);
    visit(begun);
    begun.pop_back();
    return;
  }
  for (int count = 1; count <= blocks - (stages - 1); ++count) {
    begun.push_back(count);
    for_all_cuts(blocks - count, stages - 1, begun, visit);
    begun.pop_back();
  }
}

struct Worth {
  double slowest_s = 0;
  std::uint64_t largest_bytes = 0, bytes_between = 0;
};

// From the links of the cut, which know nothing of prefix sums.
Worth worth_of(const Partitioner& partitioner, const BlockCounts& counts) {
  Worth worth;
  for (const StageCosts& stage : partitioner.stages(counts)) {
    worth.slowest_s = std::max(worth.slowest_s, stage.step_s);
    worth.largest_bytes = std::max(worth.largest_bytes, stage.memory_bytes);
  }
  for (const StageLink& link : partitioner.links(counts)) worth.bytes_between += link.bytes;
  return worth;
}

struct Instance {
  int blocks, stages;
  Partitioner partitioner;
};

void for_random_instances(const std::function<void(const Instance&, Rng&)>& test) {
  Rng rng(8, 0, purpose_of("partition"));
  for (int i = 0; i < 300; ++i) {
    const int blocks = 1 + static_cast<int>(rng.below(10));
    const int stages = 1 + static_cast<int>(rng.below(blocks));
    const CutTerms terms = {i % 2 == 0 ? 0 : 0.125, 0, 3};
    const auto stash = stashes(pipeline_schedule(i % 3 == 0 ? "gpipe" : "1f1b", stages));
    SCOPED_TRACE(fmt::format("instance {}: {} blocks, {} stages", i, blocks, stages));
    test({blocks, stages, Partitioner(random_network(rng, blocks), terms, stash)}, rng);
  }
}

// The best of all cuts that fit, one by one: what is minimised first, then bytes between stages.
std::optional<Worth> best_of_all(const Instance& it, Balance balance,
                                 std::optional<std::uint64_t> most_bytes, double& fitting) {
  std::optional<Worth> best;
  BlockCounts begun;
  for_all_cuts(it.blocks, it.stages, begun, [&](const BlockCounts& counts) {
    const Worth worth = worth_of(it.partitioner, counts);
    if (most_bytes && worth.largest_bytes > *most_bytes) return;
    ++fitting;
    const auto rank = [&](const Worth& w) {
      const double first =
          balance == Balance::time ? w.slowest_s : static_cast<double>(w.largest_bytes);
      return std::pair(first, w.bytes_between);
    };
    if (!best || rank(worth) < rank(*best)) best = worth;
  });
  return best;
}

TEST(Partitioner, FindsTheBestCutOfAll) {
  for_random_instances([](const Instance& it, Rng& rng) {
    for (const Balance balance : {Balance::time, Balance::memory})
      for (const bool limited : {false, true}) {
        std::optional<std::uint64_t> most_bytes;
        if (limited) most_bytes = rng.below(2000);
        double fitting = 0;
        const auto best = best_of_all(it, balance, most_bytes, fitting);
        const auto found = it.partitioner.best(balance, most_bytes);
        EXPECT_EQ(it.partitioner.count(most_bytes), fitting);
        ASSERT_EQ(found.has_value(), best.has_value());
        if (!found) continue;
        const Worth worth = worth_of(it.partitioner, *found);
        if (balance == Balance::time) {
          EXPECT_EQ(worth.slowest_s, best->slowest_s);
        } else {
          EXPECT_EQ(worth.largest_bytes, best->largest_bytes);
        }
        EXPECT_EQ(worth.bytes_between, best->bytes_between);
      }
  });
}

// Four blocks, a skip from the first to the last.
NetworkCosts small_unet() {
  return {{{"down0", {1, 1, 1}, 10, 100, 8},
           {"down1", {2, 1, 1}, 20, 200, 4},
           {"up1", {2, 2, 1}, 30, 300, 6},
           {"up0", {1, 1, 2}, 40, 400, 0}},
          {{"skip0", 0, 3, 5}},
          7};
}

TEST(Partitioner, SumsWhatAStageHoldsAndSends) {
  const Partitioner partitioner(small_unet(), {0.5, 0.25, 2}, {{3, 3}, {2, 2}, {1, 1}});
  const auto stages = partitioner.stages({1, 2, 1});
  EXPECT_EQ(stages[0].blocks, (Slice{0, 1}));
  EXPECT_EQ(stages[0].bytes_in, 0u);
  EXPECT_EQ(stages[0].bytes_out, 8u + 5u);
  EXPECT_EQ(stages[0].stash.inputs, 7u);
  EXPECT_EQ(stages[0].memory_bytes, 2 * 10 + 3 * (100 + 7u));
  EXPECT_DOUBLE_EQ(stages[0].step_s, 3 + 0.5 * 13);
  EXPECT_EQ(stages[1].blocks, (Slice{1, 2}));
  EXPECT_DOUBLE_EQ(stages[1].times.forward_s, 4);
  EXPECT_EQ(stages[1].bytes_in, 8u);  // the skip goes past it
  EXPECT_EQ(stages[1].bytes_out, 6u);
  EXPECT_EQ(stages[1].memory_bytes, 2 * 50 + 2 * (500 + 8u));
  EXPECT_EQ(stages[2].bytes_in, 6u + 5u);
  EXPECT_EQ(stages[2].skip_bytes_in, 5u);
  EXPECT_EQ(stages[2].memory_bytes, 2 * 40 + 1 * (400 + 11u));

  const auto links = partitioner.links({1, 2, 1});
  ASSERT_EQ(links.size(), 3u);
  EXPECT_EQ(links[0].bytes, 8u);
  EXPECT_DOUBLE_EQ(links[0].message_s, 0.25 + 4);
  EXPECT_EQ(links[2].from, 0);
  EXPECT_EQ(links[2].to, 2);
  EXPECT_EQ(links[2].bytes, 5u);
  EXPECT_EQ(Partitioner(small_unet(), {}, {{1, 1}}).links({4}).size(), 0u);
}

TEST(Partitioner, TakesTheCheaperOfTwoCutsThatAreAsFast) {
  NetworkCosts network;
  network.blocks = {
      {"a", {1, 0, 0}, 0, 0, 50}, {"b", {0, 0, 0}, 0, 0, 3}, {"c", {1, 0, 0}, 0, 0, 0}};
  EXPECT_THAT(Partitioner(network, {}, {{1, 1}, {1, 1}}).best(Balance::time),
              Optional(ElementsAre(2, 1)));
}

// A network whose first blocks are fast and large: what is even in time is not so in memory.
TEST(Partitioner, BalancesTimeOrMemory) {
  NetworkCosts network;
  for (int b = 0; b < 6; ++b)
    network.blocks.push_back({"", {1.0 + b, 0, 0}, 0, 100ull * (6 - b), 1});
  const Partitioner partitioner(network, {}, {{1, 1}, {1, 1}});
  EXPECT_THAT(partitioner.best(Balance::time), Optional(ElementsAre(4, 2)));
  EXPECT_THAT(partitioner.best(Balance::memory), Optional(ElementsAre(2, 4)));
  EXPECT_THAT(partitioner.best(Balance::time, 1500), Optional(ElementsAre(3, 3)));
  EXPECT_FALSE(partitioner.best(Balance::time, 900));
}

TEST(Partitioner, ReadsCutsByHand) {
  const Partitioner partitioner(small_unet(), {}, {{1, 1}, {1, 1}});
  EXPECT_THAT(partitioner.read("1,3"), ElementsAre(1, 3));
  const auto refusal = [&](const char* text) {
    return refusal_of([&] { (void)partitioner.read(text); });
  };
  EXPECT_EQ(refusal("2,3"), "the cut '2,3' has 5 blocks, and the network 4");
  EXPECT_EQ(refusal("1,1,2"), "the cut '1,1,2' has 3 stages, and the pipeline 2");
  EXPECT_EQ(refusal("0,4"),
            "each stage of the cut '0,4' must be a whole number from 1 to 1048576, not '0'");
  EXPECT_EQ(refusal("tim"),
            "each stage of the cut 'tim' must be a whole number from 1 to 1048576, not 'tim'");
}

TEST(Partitioner, RefusesWhatCanNotBeCut) {
  EXPECT_EQ(refusal_of([] { Partitioner(small_unet(), {}, std::vector<Stash>(5)); }),
            "5 stages of a network of 4 blocks: there must be 1 to 4, since each has a block");
  NetworkCosts backwards = small_unet();
  backwards.skips[0].to = 0;
  EXPECT_EQ(
      refusal_of([&] { Partitioner(backwards, {}, std::vector<Stash>(2)); }),
      "the skip 'skip0' goes from block 0 to block 0 of 4: it must go from a block to a later "
      "one");
}

}  // namespace
}  // namespace lockstep
