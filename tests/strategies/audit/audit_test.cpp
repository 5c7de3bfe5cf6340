#include "strategies/audit/audit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "strategies/cases.h"
#include "strategies/contract.h"
#include "strategies/planted.h"

namespace lockstep::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Training with_audit(Training training) {
  training.make = [make = training.make](const Crew& crew) { return audited(make(crew), crew); };
  return training;
}

class Audit : public ::testing::TestWithParam<World> {};

TEST_P(Audit, PassesEveryStrategyAndChangesNothing) {
  std::vector<Training> trainings;
  for (const Case& c : strategy_cases())
    for (const bool even : {true, false}) {
      Training t = c.training(4, even ? even_samples(4) : uneven_samples(4));
      t.whole_numbers = false;
      t.momentum = 0.9f;
      t.steps = 8;
      t.count = 1000;
      trainings.push_back(t);
      trainings.push_back(with_audit(t));
    }
  const auto outcomes = run_all(GetParam(), trainings);
  for (std::size_t i = 0; i < trainings.size(); i += 2) {
    EXPECT_THAT(same_as(outcomes[i], outcomes[i + 1]), IsEmpty());
    EXPECT_THAT(bytes_are_as_promised(trainings[i + 1], outcomes[i + 1]), IsEmpty());
  }
}

// Each plant on a fabric of its own ranks; the same words on all of them.
TEST_P(Audit, CatchesWhatIsPlantedAndAllRanksSayTheSame) {
  const auto all = plants();
  std::vector<std::vector<std::string>> said(all.size(), std::vector<std::string>(5));
  GetParam().run(5,
                 [&](Rank& rank) {
                   for (std::size_t i = 0; i < all.size(); ++i) {
                     const int ranks = all[i].training.ranks();
                     if (rank.rank() >= ranks) continue;
                     std::vector<int> first(ranks);
                     std::iota(first.begin(), first.end(), 0);
                     Group group(rank.peers, first);
                     try {
                       train(with_audit(all[i].training), rank, group);
                     } catch (const AuditError& e) {
                       said[i][rank.rank()] = e.what();
                     }
                   }
                 },
                 {});
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_THAT(said[i][0], AllOf(HasSubstr(fmt::format("step {},", all[i].caught_in)),
                                  HasSubstr("rank"), HasSubstr("parameters")))
        << all[i].name;
    for (int r = 1; r < all[i].training.ranks(); ++r) EXPECT_EQ(said[i][r], said[i][0]);
  }
}

TEST_P(Audit, TheContractSuiteCatchesThemToo) {
  std::vector<Training> trainings;
  for (const Plant& plant : plants()) trainings.push_back(plant.training);
  const auto outcomes = run_all(GetParam(), trainings);
  for (std::size_t i = 0; i < trainings.size(); ++i)
    EXPECT_THAT(complaints_about(trainings[i], outcomes[i]), Not(IsEmpty())) << plants()[i].name;
}

INSTANTIATE_TEST_SUITE_P(Every, Audit, ::testing::ValuesIn(strategy_worlds()),
                         [](const auto& info) { return info.param.name; });

// One worker's strategy and replica, audited.
class AuditOfOne : public ::testing::Test {
 protected:
  std::string error_of(const std::function<void(ToyReplica&, Strategy&, const Step&)>& body,
                       Memory memory = Memory::plain) {
    std::string what = "no error";
    run_loopback(1, [&](Rank& rank) {
      const Crew crew{rank, 1, 0, false, all_reduce_named("ring")};
      const auto strategy = audited(make_strategy("all-reduce", crew), crew);
      ToyReplica replica(nullptr, memory, 100, 0.5f);
      for (float& w : replica.weight_span()) w = 1;
      for (float& g : replica.gradient_span()) g = 0.125f;
      strategy->begin(replica);
      const std::vector<std::size_t> samples{1};
      try {
        body(replica, *strategy, {0, 0, samples});
      } catch (const Error& e) {
        what = e.what();
      }
    });
    return what;
  }
};

TEST_F(AuditOfOne, SeesWeightsThatChangeBetweenUpdates) {
  const auto tamper = [](float by) {
    return [by](ToyReplica& replica, Strategy& strategy, const Step& step) {
      strategy.update(replica, step);
      replica.weight_span()[70] += by;
      for (float& g : replica.gradient_span()) g = 0.125f;
      strategy.update(replica, {1, 0, step.samples});
    };
  };
  EXPECT_EQ(error_of(tamper(0)), "no error");
  EXPECT_THAT(error_of(tamper(1e-4f)), HasSubstr("changed between two updates"));
}

// What is about to be part of the model is what the last step left, and counts by its samples.
TEST_F(AuditOfOne, ProvesWhatEntersTheModel) {
  const auto entering = [](float by, std::uint64_t samples) {
    return [=](ToyReplica& replica, Strategy& strategy, const Step& step) {
      strategy.update(replica, step);
      Floats own = copy_of(replica.weight_span());
      own[70] += by;
      strategy.parts().audit->prove_own({own.data(), own.size(), Type::fp32}, samples);
    };
  };
  EXPECT_EQ(error_of(entering(0, 1)), "no error");
  EXPECT_THAT(error_of(entering(1e-4f, 1)), HasSubstr("not those that its last step left"));
  EXPECT_THAT(error_of(entering(0, 2)), HasSubstr("is to count by 2 samples, and has had 1"));
}

TEST(AuditOfOneApart, ProvesWhatEntersTheModel) {
  run_loopback(1, [&](Rank& rank) {
    const Crew crew{rank, 1, 0, false, all_reduce_named("ring")};
    const auto strategy = audited(make_strategy("gossip", crew), crew);
    ToyReplica replica(nullptr, Memory::plain, 100, 0.5f);
    strategy->begin(replica);
    strategy->parts().apart->go();
    const std::vector<std::size_t> samples{3};
    std::ranges::fill(replica.gradient_span(), 0.125f);
    strategy->update(replica, {0, 0, samples});
    Floats own = copy_of(replica.weight_span());
    const Values copied(own.data(), own.size(), Type::fp32);
    EXPECT_NO_THROW(strategy->parts().audit->prove_own(copied, 3));
    EXPECT_THROW(strategy->parts().audit->prove_own(copied, 4), AuditError);
    own[70] += 1e-4f;
    EXPECT_THROW(strategy->parts().audit->prove_own(copied, 3), AuditError);
    strategy->parts().apart->rest(replica);
  });
}

// What was before a resume is in the strategy's state, and not known to the audit: that is no
// reason for an alarm.
TEST(AuditOfAResumedRun, CountsFromWhatItKnows) {
  run_loopback(2, [&](Rank& rank) {
    const Crew crew{rank, 2, 0, false, all_reduce_named("ring")};
    ToyReplica replica(nullptr, Memory::plain, 100, 0.5f);
    const std::vector<std::size_t> few_first{1, 3}, many_first{3, 1};
    auto strategy = audited(make_strategy("local-sgd:period=2", crew), crew);
    strategy->begin(replica);
    std::ranges::fill(replica.gradient_span(), 0.125f * static_cast<float>(rank.rank()));
    strategy->update(replica, {0, 0, few_first});
    const std::string state = strategy->state();
    strategy = audited(make_strategy("local-sgd:period=2", crew), crew);
    strategy->begin(replica);
    strategy->restore(state);
    EXPECT_NO_THROW(strategy->parts().audit->prove_own(replica.weights(), 17));
    std::ranges::fill(replica.gradient_span(), 0.125f);
    EXPECT_NO_THROW(strategy->update(replica, {1, 0, many_first}));  // by four samples each
    EXPECT_NO_THROW(strategy->parts().audit->prove_own(replica.weights(), 17));
  });
}

TEST(AuditOfAResumedRun, TakesTheMassThatWasSaved) {
  run_loopback(1, [&](Rank& rank) {
    const Crew crew{rank, 1, 0, false, all_reduce_named("ring")};
    ToyReplica replica(nullptr, Memory::plain, 100, 0.5f);
    const auto strategy = audited(make_strategy("gossip", crew), crew);
    strategy->begin(replica);
    const std::string state = strategy->state();
    strategy->restore("1234 " + state.substr(state.find(' ') + 1));
    EXPECT_NO_THROW(strategy->parts().apart->go());
    EXPECT_EQ(strategy->mass(), 1234 * 0x1p-47);
    strategy->parts().apart->rest(replica);
  });
}

// Each answers a part of the test set with it, so almost the same is not the same.
TEST(AuditOfModels, FindsRanksThatReadDifferentOnes) {
  struct Almost final : Planted {
    explicit Almost(const Crew& crew) : Planted(crew, true) {}
    void update(Replica& replica, const Step& step) override {
      replica.apply_gradients(step.number);
      average(crew_, tag_of(Purpose::weights, step), replica.weights(), step.samples);
    }
    void read_model(Replica& replica, Values model) override {
      Planted::read_model(replica, model);
      auto* const first = reinterpret_cast<float*>(model.bytes().data);
      if (crew_.rank.rank() == 1) *first = std::nextafter(*first, 1e9f);
    }
  };
  Training t;
  t.workers = 3;
  t.samples = even_samples(3);
  t.make = [](const Crew& crew) { return std::make_unique<Almost>(crew); };
  std::string said;
  try {
    run_all({"loopback", run_loopback}, {with_audit(t)});
  } catch (const AuditError& e) {
    said = e.what();
  }
  EXPECT_THAT(said, HasSubstr("rank 1: its model is not that of rank 0"));
}

TEST_F(AuditOfOne, SeesAGradientThatIsNotANumber) {
  EXPECT_THAT(error_of([](ToyReplica& replica, Strategy& strategy, const Step& step) {
                replica.gradient_span()[3] = std::nanf("");
                strategy.update(replica, step);
              }),
              HasSubstr("its own gradient holds a NaN"));
}

TEST_F(AuditOfOne, RefusesHollowReplicas) {
  EXPECT_THAT(error_of([](ToyReplica& replica, Strategy& strategy,
                          const Step& step) { strategy.update(replica, step); },
                       Memory::hollow),
              HasSubstr("numerics=on"));
}

}  // namespace
}  // namespace lockstep::testing
