// Every compressor and every way to cut numbers into buckets, in the strategies that average, in
// every world: all workers have the same bits, what is stated is what happens, and an error that is
// planted is found.
#include "strategies/bucket_mean.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "audited_training.h"
#include "compression/registry.h"
#include "contract.h"
#include "strategies/audit/audit.h"
#include "strategies/bucket_average.h"
#include "strategies/mean.h"
#include "strategies/servers/central_cases.h"

namespace lockstep::testing {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;

const World kLoopback{"loopback", run_loopback};
constexpr std::size_t kCount = 43;  // three matrices of 3 x 4, and a bias

// Every compressor, and what else takes another path. Empty: numbers as they are.
const std::vector<std::string> kCodes = {"",
                                         "fp16",
                                         "fp16:feedback=on",
                                         "bf16",
                                         "bf16:feedback=on",
                                         "int8:bucket=8",
                                         "int8:bucket=8,stochastic=on",
                                         "int8:bucket=8,feedback=on",
                                         "qsgd:bucket=8",
                                         "qsgd:levels=3",
                                         "terngrad",
                                         "onebit:bucket=8",
                                         "sign",
                                         "sign:feedback=off",
                                         "topk:ratio=0.25",
                                         "topk:ratio=0.25,feedback=off",
                                         "topk:ratio=1",
                                         "randomk:ratio=0.25",
                                         "randomk:ratio=0.5,feedback=off",
                                         "randomk:ratio=1",
                                         "threshold:tau=0.7",
                                         "threshold",
                                         "dgc:ratio=0.25,warmup=0",
                                         "dgc:ratio=0.1,warmup=2",
                                         "powersgd:rank=1,saving=0.5,start=0",
                                         "powersgd:rank=1,saving=0.5,start=2"};

Buckets small_buckets(std::span<const TensorGradient> tensors) {
  return buckets_by_size(tensors, 20, 60);
}

enum class Cut { one, several, overlapped, measured };

MeanRule rule_of(const std::string& code, Cut cut, int workers) {
  MeanRule rule;
  if (!code.empty()) rule.compression = compression(code);
  if (cut != Cut::one) rule.buckets.plan = small_buckets;
  rule.buckets.overlap = cut == Cut::overlapped || cut == Cut::measured;
  rule.buckets.measures_plan = cut == Cut::measured;
  rule.notes_losses = true;
  rule.optimiser = {.workers = workers, .momentum = 0.5, .steps_per_epoch = 2};
  return rule;
}

Training with(const std::string& code, Cut cut, int workers, const std::string& spec) {
  Training t;
  t.make = [spec](const Crew& crew) { return make_strategy(spec, crew); };
  t.means = bucket_means(rule_of(code, cut, workers));
  t.workers = workers;
  t.samples = uneven_samples(workers);
  t.steps = 5;
  t.count = kCount;
  t.feeds = rule_of(code, cut, workers).buckets.overlap;
  return t;
}

// Those that say of each weight only where it goes, or that repeat an optimiser.
bool is_for_gradients_only(const std::string& code) {
  return code == "sign:feedback=off" || code.starts_with("dgc");
}

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
  for (const std::string& code : kCodes)
    for (const Cut cut : {Cut::one, Cut::several}) {
      std::vector<Floats> straight(2), resumed(2);
      for (const bool resumes : {false, true})
        run_loopback(2, [&](Rank& rank) {
          const Crew crew{.rank = rank,
                          .workers = 2,
                          .collective = all_reduce_named("ring"),
                          .means = bucket_means(rule_of(code, cut, 2))};
          ToyReplica replica(nullptr, Memory::plain, kCount, 0.25f);
          auto strategy = make_strategy("all-reduce", crew);
          strategy->begin(replica);
          const std::vector<std::size_t> samples{3, 1};
          for (std::uint64_t t = 0; t < 8; ++t) {
            if (resumes && t == 3) {
              std::vector<Floats> kept;
              for (const Kept& memory : strategy->memories())
                if (memory.in_checkpoints) kept.push_back(copy_of(memory.values));
              const std::string state = strategy->state();
              strategy = make_strategy("all-reduce", crew);
              strategy->begin(replica);
              std::size_t next = 0;
              for (const Kept& memory : strategy->memories())
                if (memory.in_checkpoints)
                  copy(memory.values.bytes(),
                       {kept[next].data(), kept[next].size() * sizeof(float)}),
                      ++next;
              strategy->restore(state);
              EXPECT_EQ(strategy->state(), state);
            }
            for (std::size_t i = 0; i < kCount; ++i)
              replica.gradient_span()[i] =
                  std::sin(static_cast<float>(rank.rank() + 1) * static_cast<float>(i * t + 1));
            strategy->update(replica, {t, 0, samples});
          }
          (resumes ? resumed : straight)[rank.rank()] = copy_of(replica.weight_span());
        });
      EXPECT_TRUE(same_bits(straight[0], resumed[0])) << code;
      EXPECT_TRUE(same_bits(straight[1], resumed[1])) << code;
    }
}

// A mean that does one thing wrong around the right one.
enum class Plant { drops_residual, adds_residual_twice, wrong_scale, takes_anothers };

class PlantedMean final : public Mean {
 public:
  PlantedMean(const Crew& crew, std::unique_ptr<Mean> inner, Plant plant)
      : crew_(crew), inner_(std::move(inner)), plant_(plant) {}

  void begin(Values values, std::span<const Parameter> parameters) override {
    values_ = values;
    inner_->begin(values, parameters);
  }
  std::uint64_t bytes_sent(int rank, std::size_t count) const override {
    return inner_->bytes_sent(rank, count);
  }
  Sum stated(std::span<const std::size_t> samples) const override {
    return inner_->stated(samples);
  }
  Sum stated_of_memory(std::size_t which, int rank,
                       std::span<const std::size_t> samples) const override {
    return inner_->stated_of_memory(which, rank, samples);
  }
  std::vector<Kept> memories() override { return inner_->memories(); }

 private:
  void opened(const Step& step, std::span<const std::size_t> samples) override {
    step_ = step;
    samples_.assign(samples.begin(), samples.end());
  }
  void finish() override {
    for (const Kept& kept : inner_->memories()) {
      if (kept.name != "residual" || !kept.in_checkpoints) continue;
      if (plant_ == Plant::drops_residual) scale(kept.values, 0);
      if (plant_ == Plant::adds_residual_twice) scale(kept.values, 2);
    }
    // Of sums nothing can be decoded with another's: there a worker comes with another's numbers.
    if (plant_ == Plant::takes_anothers && crew_.rank.rank() == 1)
      for (std::size_t i = 0; i < values_->count(); ++i)
        reinterpret_cast<float*>(values_->bytes().data)[i] *= i % 2 ? -1.f : 1.f;
    inner_->run(step_, samples_);
    if (plant_ == Plant::wrong_scale) scale(*values_, 1.0 * crew_.workers / (crew_.workers + 1));
  }

  const Crew crew_;
  const std::unique_ptr<Mean> inner_;
  const Plant plant_;
  std::optional<Values> values_;
  Step step_;
  std::vector<std::size_t> samples_;
};

// Decodes worker 1's messages with worker 0's bytes.
class TakesAnothers final : public Compressor {
 public:
  // `any_length`: a message of another length is one, too.
  TakesAnothers(std::unique_ptr<Compressor> inner, bool any_length)
      : inner_(std::move(inner)), any_length_(any_length) {}
  std::size_t most_bytes(std::size_t count) const override { return inner_->most_bytes(count); }

 protected:
  std::size_t write(std::span<const float> numbers, std::byte* message, const Draw& draw) override {
    return inner_->encode({const_cast<float*>(numbers.data()), numbers.size(), Type::fp32},
                          {message, inner_->most_bytes(numbers.size())}, draw);
  }
  void read(ConstBytes message, const Draw& of, float factor, std::span<float> into,
            Into how) override {
    const Values numbers(into.data(), into.size(), Type::fp32);
    const bool own = factor < 0;  // what is left of what it encoded itself
    if (!own && of.rank == 0) {
      last_.resize(message.size / 4 + 1);
      std::memcpy(last_.data(), message.data, message.size);
      size_ = message.size;
    }
    const ConstBytes taken =
        !own && of.rank == 1 && fits(message) ? ConstBytes(last_.data(), size_) : message;
    how == Into::add ? inner_->add(taken, of, factor, numbers) : inner_->decode(taken, of, numbers);
  }

 private:
  bool fits(ConstBytes message) const {
    return size_ > 0 && (any_length_ || size_ == message.size);
  }

  const std::unique_ptr<Compressor> inner_;
  const bool any_length_;
  std::vector<std::uint32_t> last_;
  std::size_t size_ = 0;
};

MakeMean planted(const std::string& code, Plant plant) {
  MeanRule rule = rule_of(code, Cut::one, 3);
  const Averaging how = averaging_for(*rule.compression, Purpose::gradients);
  const bool by_message = plant == Plant::takes_anothers && how != Averaging::additive &&
                          how != Averaging::seeded && how != Averaging::low_rank;
  if (by_message) {
    rule.compression->make = [make = rule.compression->make, how] {
      return std::make_unique<TakesAnothers>(make(), how == Averaging::gathered);
    };
    return bucket_means(rule);
  }
  return [=](const Crew& crew, Purpose of) {
    return std::make_unique<PlantedMean>(crew, bucket_means(rule)(crew, of), plant);
  };
}

using Bug = std::tuple<std::string, Plant>;
using BugOfBucketMean = ::testing::TestWithParam<Bug>;

std::vector<Bug> bugs() {
  std::vector<Bug> all;
  for (auto code = kCodes.begin() + 1; code != kCodes.end(); ++code) {
    for (const Plant plant : {Plant::wrong_scale, Plant::takes_anothers})
      all.emplace_back(*code, plant);
    if (compression(*code).memories == 0) continue;
    for (const Plant plant : {Plant::drops_residual, Plant::adds_residual_twice})
      all.emplace_back(*code, plant);
  }
  return all;
}

TEST_P(BugOfBucketMean, IsFoundByTheAuditAndByTheContractSuite) {
  const auto& [code, plant] = GetParam();
  Training t = with(code, Cut::one, 3, "all-reduce");
  t.means = planted(code, plant);
  t.steps = 8;
  t.whole_numbers = false;  // or a message of 16 bits would lose nothing
  EXPECT_THROW(run_all(kLoopback, {with_audit(t)}), AuditError);
  EXPECT_THAT(complaints_about(t, run_all(kLoopback, {t})[0]), Not(IsEmpty()));
}

INSTANTIATE_TEST_SUITE_P(Every, BugOfBucketMean, ::testing::ValuesIn(bugs()));

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
