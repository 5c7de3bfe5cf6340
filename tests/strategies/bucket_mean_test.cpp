// Every compressor and every way to cut numbers into buckets, in the strategies that average, in
// every world: all workers have the same bits, and what is stated is what happens.
#include "strategies/bucket_mean.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bucket_means.h"
#include "contract.h"
#include "resumed.h"
#include "strategies/mean.h"
#include "strategies/servers/central_cases.h"

namespace lockstep::testing {
namespace {

using ::testing::IsEmpty;

TEST(BucketMeans, AreTestedWithEveryCompressor) {
  for (const CompressorRow& row : compressors())
    EXPECT_TRUE(std::ranges::any_of(kCodes, [&](const std::string& code) {
      return !code.empty() && compressor_named(code).name == row.name;
    })) << row.name;
}

class BucketMeanIn : public ::testing::TestWithParam<std::tuple<World, int>> {
 protected:
  const World& world() const { return std::get<0>(GetParam()); }
  int workers() const { return std::get<1>(GetParam()); }
};

void expect_same_on_all(const Outcome& outcome, const std::string& what) {
  for (const Record& record : outcome)
    for (std::size_t t = 0; t < record.steps.size(); ++t)
      EXPECT_TRUE(same_bits(record.steps[t].after, outcome[0].steps[t].after))
          << what << ", step " << t;
}

// A run without the audit takes other paths, to the same numbers.
TEST_P(BucketMeanIn, GivesTheSameBitsWhetherLossesAreNotedOrNot) {
  std::vector<Training> trainings;
  std::vector<std::string> names;
  for (const std::string spec : {"all-reduce", "local-sgd:period=2"})
    for (const std::string& code : kCodes) {
      if (spec != "all-reduce" && is_for_gradients_only(code)) continue;
      names.push_back(spec + " " + code);
      trainings.push_back(with(code, Cut::several, workers(), spec));
      trainings.back().whole_numbers = false;
      trainings.push_back(trainings.back());
      MeanRule rule = rule_of(code, Cut::several, workers());
      rule.notes_losses = false;
      trainings.back().means = bucket_means(rule);
    }
  const auto outcomes = run_all(world(), trainings);
  for (std::size_t i = 0; i < trainings.size(); i += 2)
    EXPECT_THAT(same_as(outcomes[i], outcomes[i + 1]), IsEmpty()) << names[i / 2];
}

TEST_P(BucketMeanIn, DoesWhatItStatesAndPassesTheAudit) {
  std::vector<Training> trainings;
  for (const std::string& code : kCodes)
    for (const Cut cut : {Cut::one, Cut::overlapped}) {
      trainings.push_back(with(code, cut, workers(), "all-reduce"));
      trainings.push_back(with_audit(trainings.back()));
    }
  const auto outcomes = run_all(world(), trainings);
  for (std::size_t i = 0; i < trainings.size(); i += 2) {
    const std::string& code = kCodes[i / 4];
    EXPECT_THAT(complaints_about(trainings[i], outcomes[i]), IsEmpty()) << code;
    EXPECT_THAT(same_as(outcomes[i], outcomes[i + 1]), IsEmpty()) << code;
  }
}

// Numbers that round, too.
TEST_P(BucketMeanIn, GivesTheSameBitsOverlappedOrNotAndOnAllWorkers) {
  std::vector<Training> trainings;
  for (const std::string& code : kCodes)
    for (const Cut cut : {Cut::several, Cut::overlapped}) {
      trainings.push_back(with(code, cut, workers(), "all-reduce"));
      trainings.back().whole_numbers = false;
    }
  const auto outcomes = run_all(world(), trainings);
  for (std::size_t i = 0; i < trainings.size(); i += 2) {
    const std::string& code = kCodes[i / 2];
    EXPECT_THAT(same_as(outcomes[i], outcomes[i + 1]), IsEmpty()) << code;
    expect_same_on_all(outcomes[i], code);
  }
}

// What all send is a difference from what all know.
TEST_P(BucketMeanIn, AveragesWeights) {
  std::vector<Training> trainings;
  std::vector<std::string> names;
  for (const std::string spec :
       {"all-reduce:average=weights", "local-sgd:period=2", "slow-mo:period=2", "diloco:period=2"})
    for (const std::string& code : kCodes) {
      if (is_for_gradients_only(code)) continue;
      names.push_back(spec + " " + code);
      trainings.push_back(with(code, Cut::one, workers(), spec));
      trainings.push_back(with_audit(trainings.back()));
    }
  const auto outcomes = run_all(world(), trainings);
  for (std::size_t i = 0; i < trainings.size(); i += 2) {
    EXPECT_THAT(complaints_about(trainings[i], outcomes[i]), IsEmpty()) << names[i / 2];
    EXPECT_THAT(same_as(outcomes[i], outcomes[i + 1]), IsEmpty()) << names[i / 2];
  }
}

INSTANTIATE_TEST_SUITE_P(Every, BucketMeanIn,
                         ::testing::Combine(::testing::ValuesIn(strategy_worlds()),
                                            ::testing::Values(1, 2, 3, 5)),
                         [](const auto& info) {
                           return fmt::format("{}_{}", std::get<0>(info.param).name,
                                              std::get<1>(info.param));
                         });

// In half precision such numbers are subnormal: what they lose is no part of them any more.
TEST(BucketMeans, OfTinyNumbersDoWhatTheyStateAndPassTheAudit) {
  std::vector<Training> trainings;
  for (const std::string spec : {"all-reduce", "local-sgd:period=2", "slow-mo:period=2"})
    for (const std::string code : {"fp16", "fp16:scale=256", "fp16:feedback=on", "bf16"})
      for (const float size : {1e-6f, 1e-9f}) {
        trainings.push_back(with(code, Cut::one, 3, spec));
        trainings.back().whole_numbers = false;
        trainings.back().size = size;
      }
  for (const Training& t : trainings) {
    EXPECT_NO_THROW(run_all(kLoopback, {with_audit(t)}));
    EXPECT_THAT(results_follow_the_flows(t, run_all(kLoopback, {t})[0]), IsEmpty());
  }
}

// Weights move by less than half precision has a number for, and get there all the same.
TEST(BucketMeans, OfWeightsKeepWhatHalfPrecisionRoundsOff) {
  run_loopback(2, [](Rank& rank) {
    const Crew crew{.rank = rank,
                    .workers = 2,
                    .collective = all_reduce_named("ring"),
                    .means = bucket_means(rule_of("fp16", Cut::one, 2))};
    ToyReplica replica(nullptr, Memory::plain, kCount, 0.25f);
    const auto strategy = make_strategy("local-sgd:period=1", crew);
    strategy->begin(replica);
    const std::vector<std::size_t> samples{1, 1};
    for (std::uint64_t t = 0; t < 40; ++t) {
      std::ranges::fill(replica.gradient_span(), 4e-8f);
      strategy->update(replica, {t, 0, samples});
    }
    for (const float weight : replica.weight_span()) EXPECT_NEAR(weight, -4e-7, 0x1p-24);
  });
}

// One step in which each tensor's gradient takes 5 ms, over lines on which its mean takes less.
double seconds_of_a_step(Rank& rank, bool overlap, Figures& figures) {
  MeanRule rule;
  rule.buckets.plan = bucket_each;
  rule.buckets.overlap = overlap;
  const Crew crew{.rank = rank,
                  .workers = 2,
                  .collective = all_reduce_named("ring"),
                  .means = bucket_means(rule)};
  ToyReplica replica(nullptr, Memory::plain, kCount, 0.25f);
  const auto strategy = make_strategy("all-reduce", crew);
  strategy->begin(replica);
  const std::vector<std::size_t> samples{1, 1};
  const double start = rank.clock.now();
  Fed& fed = *strategy->parts().fed;
  fed.expect(replica, {0, 0, samples});
  const std::span<const Parameter> all = replica.parameters();
  for (std::size_t i = all.size(); i-- > 0;) {
    rank.clock.charge(0.005);
    fed.ready(all[i].slice);
  }
  strategy->update(replica, {0, 0, samples});
  figures = figures_of(*strategy);
  return rank.clock.now() - start;
}

TEST(BucketMeans, ThatOverlapTakeLessTimeAndSayHowMuch) {
  SimulatedCluster cluster;
  cluster.latency_s = 0.001;
  run_simulated(cluster, [](Rank& rank) {
    Figures plain, overlapped;
    const double all = seconds_of_a_step(rank, false, plain);
    const double less = seconds_of_a_step(rank, true, overlapped);
    EXPECT_EQ(plain.hidden_s, 0);
    EXPECT_GT(overlapped.hidden_s, 0.005);  // three means of at least two messages each
    EXPECT_NEAR(all - less, overlapped.hidden_s, 1e-6);
  });
}

TEST(BucketMeans, ThatLoseNothingAreTheExactMean) {
  const auto exact = run_all(kLoopback, {with("", Cut::one, 3, "all-reduce")})[0];
  for (const std::string code : {"topk:ratio=1", "randomk:ratio=1", "threshold"})
    for (const Cut cut : {Cut::one, Cut::overlapped})
      EXPECT_THAT(same_as(run_all(kLoopback, {with(code, cut, 3, "all-reduce")})[0], exact),
                  IsEmpty())
          << code;
}

TEST(BucketMeans, OfFullRankAreTheExactMeanButForRounding) {
  Training full = with("powersgd:rank=3,saving=0.1,start=0", Cut::one, 3, "all-reduce");
  const auto outcomes = run_all(kLoopback, {full, with("", Cut::one, 3, "all-reduce")});
  for (int r = 0; r < 3; ++r)
    for (std::size_t i = 0; i < kCount; ++i)
      EXPECT_NEAR(outcomes[0][r].model[i], outcomes[1][r].model[i], 0.01);
}

TEST(BucketMeans, SendAsManyBytesAsTheyPromiseWithoutNumbers) {
  std::vector<Training> trainings;
  for (const std::string& code : kCodes)
    for (const Cut cut : {Cut::one, Cut::overlapped, Cut::measured}) {
      trainings.push_back(with(code, cut, 3, "all-reduce"));
      trainings.back().memory = Memory::hollow;
      trainings.back().steps = 8;
    }
  const auto outcomes = run_all(simulated_world(), trainings);
  for (std::size_t i = 0; i < trainings.size(); ++i) {
    EXPECT_THAT(bytes_are_as_promised(trainings[i], outcomes[i]), IsEmpty()) << kCodes[i / 3];
    EXPECT_GT(outcomes[i][0].steps[0].sent, 0) << kCodes[i / 3];
  }
}

// Workers that own no number, and buckets of one.
TEST(BucketMeans, HaveFewerNumbersThanWorkers) {
  std::vector<Training> trainings;
  for (const std::string& code : kCodes)
    for (const std::size_t count : {1u, 2u, 13u})
      for (const Cut cut : {Cut::one, Cut::overlapped}) {
        trainings.push_back(with(code, cut, 5, "all-reduce"));
        trainings.back().count = count;
        trainings.push_back(with_audit(trainings.back()));
      }
  const auto outcomes = run_all(kLoopback, trainings);
  for (std::size_t i = 0; i < trainings.size(); i += 2) {
    const std::string what = fmt::format("{}, {} numbers", kCodes[i / 12], trainings[i].count);
    EXPECT_THAT(complaints_about(trainings[i], outcomes[i]), IsEmpty()) << what;
    EXPECT_THAT(same_as(outcomes[i], outcomes[i + 1]), IsEmpty()) << what;
    expect_same_on_all(outcomes[i], what);
  }
}

std::vector<std::uint64_t> bytes_of_steps(const std::string& code) {
  const Outcome outcome = run_all(kLoopback, {with(code, Cut::one, 3, "all-reduce")})[0];
  std::vector<std::uint64_t> bytes;
  for (const Seen& seen : outcome[0].steps) bytes.push_back(seen.sent);
  return bytes;
}

// Of 43 numbers and three workers, by hand: two messages of pairs of 8 bytes pass each worker, and
// it tells two others in 8 bytes how long its own is.
TEST(BucketMeans, OfTheLargestSendTheirPairsAndNothingElse) {
  const auto pairs = [](std::uint64_t k) { return 2 * 8 * k + 2 * 8; };
  const std::uint64_t quarter = pairs(11);
  const std::vector<std::uint64_t> always(5, quarter);
  EXPECT_EQ(bytes_of_steps("topk:ratio=0.25"), always);
  EXPECT_EQ(bytes_of_steps("dgc:ratio=0.25,warmup=0"), always);
  // Half an epoch a step: 0.1 to the power of 1/5, 2/5, 3/5, 4/5 and then 1.
  EXPECT_EQ(bytes_of_steps("dgc:ratio=0.1,warmup=2"),
            (std::vector<std::uint64_t>{pairs(28), pairs(18), quarter, pairs(7), pairs(5)}));
}

// Three matrices of 3 x 4 at rank 1 are columns of 3 and of 4, beside 7 numbers of the bias.
TEST(BucketMeans, OfLowRankStartWithTheStepThatTheyAreTold) {
  const auto plain = bytes_of_steps("");
  const auto low = bytes_of_steps("powersgd:rank=1,saving=0.5,start=0");
  const auto later = bytes_of_steps("powersgd:rank=1,saving=0.5,start=2");
  EXPECT_LT(low[0], plain[0]);
  for (std::size_t t = 0; t < later.size(); ++t)
    EXPECT_EQ(later[t], t < 2 ? plain[t] : low[t]) << t;
}

// Else what workers multiply would be no mean of anything, and they would still agree on it.
TEST(BucketMeans, OfLowRankStartFromTheSameBasisOnAllWorkers) {
  std::vector<Floats> bases(3);
  run_loopback(3, [&](Rank& rank) {
    const Crew crew{
        .rank = rank,
        .workers = 3,
        .collective = all_reduce_named("ring"),
        .means = bucket_means(rule_of("powersgd:rank=1,saving=0.5,start=0", Cut::several, 3))};
    ToyReplica replica(nullptr, Memory::plain, kCount, 0.25f);
    const auto mean = crew.means(crew, Purpose::gradients);
    mean->begin(replica.gradients(), replica.parameters());
    for (const Kept& kept : mean->memories()) {
      const auto* first = reinterpret_cast<const float*>(kept.values.bytes().data);
      if (kept.name == "basis") bases[rank.rank()].assign(first, first + kept.values.count());
    }
  });
  ASSERT_EQ(bases[0].size(), 3u * 4u) << "three matrices of four columns";
  EXPECT_GT(*std::ranges::max_element(bases[0]), 0);
  EXPECT_EQ(bases[1], bases[0]);
  EXPECT_EQ(bases[2], bases[0]);
}

// The sum of all workers' numbers is on its way in half precision too: beyond 65504 of it they need
// a smaller scale.
TEST(BucketMeans, InHalfPrecisionOverflowWhereTheirSumDoes) {
  const auto mean_of = [](const std::string& code, float each) {
    float mean = 0;
    run_loopback(4, [&](Rank& rank) {
      const Crew crew{.rank = rank,
                      .workers = 4,
                      .collective = all_reduce_named("ring"),
                      .means = bucket_means(rule_of(code, Cut::one, 4))};
      ToyReplica replica(nullptr, Memory::plain, kCount, 1);
      const auto strategy = make_strategy("all-reduce", crew);
      strategy->begin(replica);
      std::ranges::fill(replica.gradient_span(), each);
      strategy->update(replica, {0, 0, std::vector<std::size_t>(4, 1)});
      if (rank.rank() == 0) mean = -replica.weight_span()[kCount - 1];
    });
    return mean;
  };
  EXPECT_EQ(mean_of("fp16", 16'000), 16'000);
  EXPECT_TRUE(std::isinf(mean_of("fp16", 32'000)));
  EXPECT_EQ(mean_of("fp16:scale=0.25", 32'000), 32'000);
  EXPECT_EQ(mean_of("fp16:feedback=on", 32'000), 32'000) << "owners add in fp32";
}

// Tensors whose numbers have all one magnitude are the same in every draw. Neither the scale of
// another tensor nor a second rounding, of a mean whose magnitudes differ, may come in between.
TEST(BucketMeans, OfTernGradScaleEachTensorAndRoundOnce) {
  run_loopback(2, [](Rank& rank) {
    const Crew crew{.rank = rank,
                    .workers = 2,
                    .collective = all_reduce_named("ring"),
                    .means = bucket_means(rule_of("terngrad", Cut::one, 2))};
    ToyReplica replica(nullptr, Memory::plain, kCount, 0.25f);
    const auto strategy = make_strategy("all-reduce", crew);
    strategy->begin(replica);
    const auto gradient = [](int of, std::size_t i) {
      const float size = std::pow(10.f, static_cast<float>(i / 12));
      return of == 1 ? size : i % 2 == 0 ? 2 * size : -2 * size;
    };
    for (std::size_t i = 0; i < kCount; ++i) replica.gradient_span()[i] = gradient(rank.rank(), i);
    strategy->update(replica, {0, 0, std::vector<std::size_t>{1, 1}});
    for (std::size_t i = 0; i < kCount; ++i)
      EXPECT_FLOAT_EQ(replica.weight_span()[i], -0.125f * (gradient(0, i) + gradient(1, i))) << i;
  });
}

// The trial changes plans twice, and owners hand on what they kept.
TEST(BucketMeans, KeepTheirPromisesWhileTheirPlanIsMeasured) {
  for (const World& world : strategy_worlds()) {
    std::vector<Training> trainings;
    for (const std::string& code : kCodes) {
      trainings.push_back(with(code, Cut::measured, 3, "all-reduce"));
      trainings.back().steps = 8;  // as long as whole numbers stay exact
      trainings.push_back(with_audit(trainings.back()));
    }
    const auto outcomes = run_all(world, trainings);
    for (std::size_t i = 0; i < trainings.size(); i += 2) {
      EXPECT_THAT(complaints_about(trainings[i], outcomes[i]), IsEmpty()) << kCodes[i / 2];
      expect_same_on_all(outcomes[i + 1], kCodes[i / 2]);
    }
  }
}

// A strategy that is made anew in the middle of a run goes on with what the old one kept.
TEST(BucketMeans, GoOnFromACheckpoint) {
  for (const std::string spec : {"all-reduce", "local-sgd:period=2", "slow-mo:period=2"})
    for (const std::string& code : kCodes)
      for (const Cut cut : {Cut::one, Cut::several}) {
        if (spec != "all-reduce" && (is_for_gradients_only(code) || cut != Cut::one)) continue;
        const auto crew_of = [&](Rank& rank) {
          return Crew{.rank = rank,
                      .workers = 2,
                      .collective = all_reduce_named("ring"),
                      .means = bucket_means(rule_of(code, cut, 2))};
        };
        EXPECT_EQ(weights_after(spec, crew_of, kCount, true),
                  weights_after(spec, crew_of, kCount, false))
            << spec << " " << code;
      }
}

// What was timed in a trial is not in a checkpoint: the trial begins anew, and a plan that was
// found stays.
TEST(BucketMeans, BeginTheirTrialAnewWhereACheckpointIsInIt) {
  for (const std::string code : {"", "int8:bucket=8,feedback=on", "topk:ratio=0.25"})
    run_loopback(2, [&](Rank& rank) {
      const Crew crew{.rank = rank,
                      .workers = 2,
                      .collective = all_reduce_named("ring"),
                      .means = bucket_means(rule_of(code, Cut::measured, 2))};
      ToyReplica replica(nullptr, Memory::plain, kCount, 0.25f);
      const std::vector<std::size_t> samples{1, 1};
      const auto strategy = make_strategy("all-reduce", crew);
      strategy->begin(replica);
      for (std::uint64_t t = 0; t < 8; ++t) {
        std::ranges::fill(replica.gradient_span(), 1.f);
        strategy->update(replica, {t, 0, samples});
        const auto anew = make_strategy("all-reduce", crew);
        anew->begin(replica);
        anew->restore(strategy->state());
        EXPECT_EQ(anew->state(), t < 5 ? "0 7 12 12 12" : strategy->state()) << code << " " << t;
      }
    });
}

TEST(BucketMeans, BeginEarlyUnderTheAuditWhereTheyDoWithout) {
  run_loopback(1, [](Rank& rank) {
    for (const Cut cut : {Cut::several, Cut::overlapped}) {
      const Crew crew{.rank = rank,
                      .workers = 1,
                      .collective = all_reduce_named("ring"),
                      .means = bucket_means(rule_of("", cut, 1))};
      const auto strategy = audited(make_strategy("all-reduce", crew), crew);
      EXPECT_EQ(strategy->parts().fed->begins_early(), cut == Cut::overlapped);
    }
  });
}

TEST(BucketMeans, RefuseWhatIsUnsound) {
  run_loopback(1, [](Rank& rank) {
    const Crew crew{.rank = rank, .workers = 1, .collective = all_reduce_named("ring")};
    for (const std::string code : {"dgc", "sign:feedback=off"})
      EXPECT_THROW(bucket_means(rule_of(code, Cut::one, 1))(crew, Purpose::weights), UsageError);
    MeanRule clipped = rule_of("dgc:clip=1", Cut::one, 1);
    EXPECT_THROW(bucket_means(clipped)(crew, Purpose::gradients), UsageError);
    clipped.notes_losses = false;
    EXPECT_NO_THROW(bucket_means(clipped)(crew, Purpose::gradients));
  });
}

TEST(PlansThatAreGiven, AreWholeTensorsAndAllOfThem) {
  const std::vector<TensorGradient> tensors{{5}, {2}, {3}};
  EXPECT_EQ(buckets_of(std::vector<std::size_t>{3, 7}, tensors), (Buckets{{7, 3}, {0, 7}}));
  for (const std::vector<std::size_t>& bad :
       {std::vector<std::size_t>{3, 6}, {4, 6}, {3, 2}, {3, 7, 1}, {}})
    EXPECT_THROW(buckets_of(bad, tensors), UsageError);
}

}  // namespace
}  // namespace lockstep::testing
