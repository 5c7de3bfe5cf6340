#include "measure/ledger.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace lockstep {
namespace {

Ledger example() {
  Ledger ledger(3);
  ledger.at(1, Purpose::gradients) += {100, 2, 50, 1};
  ledger.at(2, Purpose::gradients) += {10, 1, 0, 0};
  ledger.at(2, Purpose::weights) += {0, 0, 400, 4};
  return ledger;
}

TEST(Ledger, Totals) {
  const Ledger ledger = example();
  EXPECT_EQ(total(ledger), (Traffic{110, 3, 450, 5}));
  EXPECT_EQ(total_of(ledger, Purpose::gradients), (Traffic{110, 3, 50, 1}));
  EXPECT_EQ(total_of(ledger, Purpose::control), Traffic{});
  EXPECT_EQ(total_with(ledger, 2), (Traffic{10, 1, 400, 4}));
}

TEST(Ledger, ADifferenceIsWhatHappenedSince) {
  Ledger ledger = example();
  const Ledger before = ledger;
  EXPECT_EQ(ledger - before, Ledger(3));
  ledger.at(0, Purpose::setup) += {7, 1, 0, 0};
  EXPECT_EQ(total(ledger - before), (Traffic{7, 1, 0, 0}));
  Ledger lanes = before;
  lanes += ledger - before;
  EXPECT_EQ(lanes, ledger);
}

TEST(Ledger, SizesMustAgree) {
  EXPECT_THROW(Ledger(2) - Ledger(3), InternalError);
  EXPECT_THROW(Ledger(2).at(2, Purpose::control), std::out_of_range);
}

}  // namespace
}  // namespace lockstep
