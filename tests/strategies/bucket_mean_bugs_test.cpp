// Bugs that are planted in means of buckets are found, by the audit and by the contract suite.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bucket_means.h"
#include "contract.h"
#include "sends_zeros.h"
#include "strategies/add_scaled.h"
#include "strategies/bucket_average.h"
#include "strategies/mean.h"

namespace lockstep::testing {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;

// A mean that does one thing wrong around the right one.
enum class Plant {
  drops_residual,
  adds_residual_twice,
  wrong_scale,
  takes_anothers,
  halves_votes,
  turns_votes
};

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
    if (plant_ == Plant::halves_votes) change_votes(0.5);
    if (plant_ == Plant::turns_votes) change_votes(-1);
  }
  // And says so, in the memory of what a vote changes: the sum is right.
  void change_votes(double factor) {
    for (const Kept& kept : inner_->memories())
      if (kept.name == "residual of owners") add_scaled(kept.values, 1 - factor, *values_);
    scale(*values_, factor);
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

// Of those that encode, all whose bound says that something of the numbers arrives.
TEST(BucketMeans, ThatSendZerosAreFound) {
  for (const std::string code :
       {"fp16", "fp16:feedback=on", "bf16", "int8:bucket=8", "int8:bucket=8,stochastic=on",
        "int8:bucket=8,feedback=on", "qsgd:bucket=8", "onebit:bucket=8", "sign", "topk:ratio=0.25",
        "topk:ratio=0.25,feedback=off", "topk:ratio=1", "randomk:ratio=1", "threshold:tau=0.1",
        "threshold:tau=0.1,feedback=off", "threshold"})
    for (const std::string spec : {"all-reduce", "local-sgd:period=1"}) {
      MeanRule rule = rule_of(code, Cut::one, 3);
      rule.compression = sends_zeros(*rule.compression);
      Training t = with(code, Cut::one, 3, spec);
      t.means = bucket_means(rule);
      t.whole_numbers = false;
      // The audit bounds what is left of a difference by the norms of both weights.
      if (spec == "all-reduce") {
        EXPECT_THROW(run_all(kLoopback, {with_audit(t)}), AuditError) << code;
      }
      EXPECT_THAT(results_follow_the_flows(t, run_all(kLoopback, {t})[0]), Not(IsEmpty()))
          << spec << " " << code;
    }
}

TEST(BucketMeans, OfVotesThatAreNoSignsOrTheWrongOnesAreFound) {
  for (const Plant plant : {Plant::halves_votes, Plant::turns_votes}) {
    Training t = with("sign:feedback=off", Cut::one, 3, "all-reduce");
    t.means = planted("sign:feedback=off", plant);
    EXPECT_THROW(run_all(kLoopback, {with_audit(t)}), AuditError);
  }
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

}  // namespace
}  // namespace lockstep::testing
