#include "collectives/messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "measure/metered.h"
#include "transport/fabric.h"

namespace lockstep {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

constexpr Tag kThere{Purpose::gradients, 1}, kBack{Purpose::weights, 1};

// Rank 1 doubles each segment as it comes, and sends it straight back.
TEST(Messages, WhatIsDoneWithASegmentIsDoneBeforeItGoesOn) {
  run_loopback(2, [](Rank& rank) {
    std::vector<float> numbers(10, 3);
    const Values values(numbers.data(), numbers.size(), Type::fp32);
    std::vector<std::size_t> begins;
    Messages messages(rank.peers, kThere, 4 * sizeof(float));
    if (rank.rank() == 0) {
      messages.take(1, values, messages.send(1, values));
    } else {
      const auto came = messages.take(0, values);
      messages.then(came, [&](Slice segment) {
        begins.push_back(segment.begin);
        scale(values.part(segment), 2);
      });
      messages.send(0, values, came);
    }
    messages.run();
    EXPECT_THAT(numbers, Each(6));
    if (rank.rank() == 1) {
      EXPECT_THAT(begins, ElementsAre(0, 4, 7));
    }
  });
}

TEST(Messages, TransfersGoUnderTheTagOfTheirTime) {
  run_loopback(2, [](Rank& rank) {
    Ledger ledger(2);
    Metered metered(rank.peers, ledger);
    std::vector<float> numbers(8);
    const Values values(numbers.data(), numbers.size(), Type::fp32);
    Messages messages(metered, kThere);
    const auto there = rank.rank() == 0 ? messages.send(1, values) : messages.take(0, values);
    messages.under(kBack);
    rank.rank() == 0 ? messages.take(1, values, there) : messages.send(0, values, there);
    messages.run();
    EXPECT_EQ(total_of(ledger, Purpose::gradients).bytes_sent, rank.rank() == 0 ? 32u : 0u);
    EXPECT_EQ(total_of(ledger, Purpose::weights).bytes_sent, rank.rank() == 1 ? 32u : 0u);
  });
}

}  // namespace
}  // namespace lockstep
