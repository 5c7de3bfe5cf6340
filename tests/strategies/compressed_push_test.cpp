// Every compressor that a server can decode, in every strategy whose workers push: what reaches the
// servers is what is stated, and an error that is planted is found.
#include "strategies/compressed_push.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <utility>

#include "apart_contract.h"
#include "audited_training.h"
#include "compression/registry.h"
#include "overlapped.h"
#include "resumed.h"
#include "sends_zeros.h"
#include "strategies/push_code.h"

namespace lockstep::testing {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;

const World kLoopback{"loopback", run_loopback};
const std::vector<std::string> kCodes = {"fp16",
                                         "fp16:feedback=on",
                                         "bf16",
                                         "int8:bucket=8",
                                         "int8:bucket=8,feedback=on",
                                         "qsgd:bucket=8",
                                         "terngrad",
                                         "onebit:bucket=8",
                                         "sign",
                                         "topk:ratio=0.25",
                                         "topk:ratio=0.25,feedback=off",
                                         "randomk:ratio=0.25",
                                         "randomk:ratio=0.5,feedback=off",
                                         "threshold:tau=0.5",
                                         "threshold",
                                         "dgc:ratio=0.25,warmup=1"};

enum class Plant { none, drops_residual, adds_residual_twice, wrong_scale, takes_anothers };

// A code that does one thing wrong around the right one. One that keeps nothing has no residual to
// be wrong about.
class PlantedCode final : public PushCode {
 public:
  PlantedCode(std::unique_ptr<PushCode> inner, Plant plant)
      : inner_(std::move(inner)), plant_(plant) {}

  void begin(Values numbers, std::span<const Parameter> parameters) override {
    inner_->begin(numbers, parameters);
  }
  ConstBytes encode(Values numbers, std::size_t first, std::vector<std::byte>& memory) override {
    if (plant_ == Plant::drops_residual || plant_ == Plant::adds_residual_twice)
      scale(inner_->memories().back().values.part({first, numbers.count()}),
            plant_ == Plant::drops_residual ? 0 : 2);
    return inner_->encode(numbers, first, memory);
  }
  std::size_t most_bytes(Values numbers) const override { return inner_->most_bytes(numbers); }
  bool goes_in_pieces() const override { return inner_->goes_in_pieces(); }
  bool decode(ConstBytes message, std::size_t first, Values into) const override {
    if (!inner_->decode(message, first, into)) return false;
    if (plant_ == Plant::wrong_scale) scale(into, 2);
    if (plant_ != Plant::takes_anothers) return true;
    // Of the same numbers, whoever's came before.
    std::vector<std::uint32_t>& last = last_[{first, into.count()}];
    std::vector<std::uint32_t> now(message.size / 4 + 1);
    std::memcpy(now.data(), message.data, message.size);
    last.swap(now);
    const std::size_t had = std::exchange(bytes_[{first, into.count()}], message.size);
    return had == 0 || inner_->decode({now.data(), had}, first, into);
  }
  std::vector<OfMemory> stated() const override { return inner_->stated(); }
  Holds holds() const override { return inner_->holds(); }
  Holds holds_of_memory(std::size_t which) const override { return inner_->holds_of_memory(which); }
  std::vector<Kept> memories() override { return inner_->memories(); }

 private:
  const std::unique_ptr<PushCode> inner_;
  const Plant plant_;
  using Part = std::pair<std::size_t, std::size_t>;
  mutable std::map<Part, std::vector<std::uint32_t>> last_;  // by part of a push, its message,
  mutable std::map<Part, std::size_t> bytes_;                // and how long that is
};

MakePushCode pushes(const std::string& code, Plant plant = Plant::none) {
  const MakePushCode right = compressed_pushes(
      {compression(code), true, {.workers = 3, .momentum = 0.5, .steps_per_epoch = 4}});
  if (plant == Plant::none) return right;
  return [=](const Crew& crew) { return std::make_unique<PlantedCode>(right(crew), plant); };
}

ApartTraining pushing(const std::string& spec, MakePushCode codes) {
  ApartTraining t = apart_of(spec);
  t.push_codes = std::move(codes);
  t.gradient = rough_gradient;
  t.audit = true;
  return t;
}

TEST(CompressedPushes, AreTestedWithEveryCompressorThatHasMessages) {
  for (const CompressorRow& row : compressors())
    EXPECT_TRUE(row.name == "powersgd" ||
                std::ranges::any_of(kCodes,
                                    [&](const std::string& code) {
                                      return compressor_named(code).name == row.name;
                                    }))
        << row.name;
}

TEST(CompressedPushes, PassTheAuditWhereWorkersGoApart) {
  std::vector<ApartTraining> trainings;
  for (const std::string spec : {"asp", "ssp:s=1", "downpour:push=2"})
    for (const std::string& code : kCodes)
      if (!code.starts_with("dgc") || spec == "asp")
        trainings.push_back(pushing(spec, pushes(code)));
  EXPECT_NO_THROW(run_apart_all(simulated_world(), trainings));
  trainings.resize(kCodes.size());
  EXPECT_NO_THROW(run_apart_all(kLoopback, trainings));
}

// Each bucket is a message of its own, and begins while backward runs.
TEST(CompressedPushes, PassTheAuditWhereTheyBeginBesideBackward) {
  std::vector<ApartTraining> trainings;
  for (const std::string spec : {"asp", "ssp:s=1"})
    for (const std::string& code : kCodes)
      if (!code.starts_with("dgc") || spec == "asp")
        trainings.push_back(overlapped(pushing(spec, pushes(code))));
  EXPECT_NO_THROW(run_apart_all(simulated_world(), trainings));
  for (const World& world : strategy_worlds())
    if (world.name != "simulated") {
      EXPECT_NO_THROW(run_apart_all(world, trainings)) << world.name;
    }
}

TEST(CompressedPushes, ThatLoseNothingAreThePushItself) {
  const auto outcomes = run_apart_all(simulated_world(),
                                      {pushing("asp", pushes("threshold")),
                                       pushing("asp", pushes("topk:ratio=1")), pushing("asp", {})});
  for (int w = 0; w < 3; ++w)
    for (const int i : {0, 1}) EXPECT_EQ(outcomes[i][w].model, outcomes[2][w].model);
}

class CompressedPushesIn : public ::testing::TestWithParam<World> {};

TEST_P(CompressedPushesIn, DoWhatTheyStateAndPassTheAudit) {
  std::vector<Training> trainings;
  for (const std::string& code : kCodes)
    for (const bool colocated : {false, true}) {
      trainings.push_back(pushing_together(2, colocated, pushes(code)));
      trainings.push_back(with_audit(trainings.back()));
    }
  const auto outcomes = run_all(GetParam(), trainings);
  for (std::size_t i = 0; i < trainings.size(); i += 2) {
    EXPECT_THAT(complaints_about(trainings[i], outcomes[i]), IsEmpty()) << kCodes[i / 4];
    EXPECT_THAT(same_as(outcomes[i], outcomes[i + 1]), IsEmpty()) << kCodes[i / 4];
  }
}

// Beside backward, audited or not, as without overlap by the same buckets.
TEST_P(CompressedPushesIn, DoTheSameBesideBackward) {
  std::vector<Training> trainings;
  for (const std::string& code : kCodes)
    for (const bool colocated : {false, true}) {
      const Training beside = overlapped(pushing_together(2, colocated, pushes(code)));
      trainings.insert(trainings.end(), {beside, with_audit(beside), in_buckets(beside)});
    }
  const auto outcomes = run_all(GetParam(), trainings);
  for (std::size_t i = 0; i < trainings.size(); i += 3) {
    const std::string& code = kCodes[i / 6];
    EXPECT_THAT(complaints_about(trainings[i], outcomes[i]), IsEmpty()) << code;
    EXPECT_THAT(same_as(outcomes[i], outcomes[i + 1]), IsEmpty()) << code;
    EXPECT_THAT(same_as(outcomes[i], outcomes[i + 2]), IsEmpty()) << code;
  }
}

INSTANTIATE_TEST_SUITE_P(Every, CompressedPushesIn, ::testing::ValuesIn(strategy_worlds()),
                         [](const auto& info) { return info.param.name; });

using Bug = std::tuple<std::string, Plant>;
using BugOfCompressedPush = ::testing::TestWithParam<Bug>;

std::vector<Bug> bugs() {
  std::vector<Bug> all;
  for (const std::string& code : kCodes) {
    for (const Plant plant : {Plant::wrong_scale, Plant::takes_anothers})
      all.emplace_back(code, plant);
    if (compression(code).memories == 0) continue;
    for (const Plant plant : {Plant::drops_residual, Plant::adds_residual_twice})
      all.emplace_back(code, plant);
  }
  return all;
}

TEST_P(BugOfCompressedPush, IsFound) {
  const auto& [code, plant] = GetParam();
  EXPECT_THROW(run_tampered(simulated_world(), pushing("asp", pushes(code, plant)),
                            {[](Tag) { return false; }}),
               AuditError);
  const Training t = pushing_together(2, false, pushes(code, plant));
  EXPECT_THROW(run_all(kLoopback, {with_audit(t)}), AuditError);
  EXPECT_THAT(complaints_about(t, run_all(kLoopback, {t})[0]), Not(IsEmpty()));
}

TEST_P(BugOfCompressedPush, IsFoundWherePushesBeginBesideBackward) {
  const auto& [code, plant] = GetParam();
  EXPECT_THROW(run_tampered(simulated_world(), overlapped(pushing("asp", pushes(code, plant))),
                            {[](Tag) { return false; }}),
               AuditError);
  const Training t = overlapped(pushing_together(2, false, pushes(code, plant)));
  EXPECT_THROW(run_all(kLoopback, {with_audit(t)}), AuditError);
}

INSTANTIATE_TEST_SUITE_P(Every, BugOfCompressedPush, ::testing::ValuesIn(bugs()));

// Of those that encode, all whose bound says that something of the numbers arrives, however many
// they are.
TEST(CompressedPushes, ThatSendZerosAreFound) {
  for (const std::string code :
       {"fp16", "fp16:feedback=on", "bf16", "int8:bucket=8", "int8:bucket=8,stochastic=on",
        "int8:bucket=8,feedback=on", "qsgd:bucket=8", "onebit:bucket=8", "topk:ratio=0.25",
        "topk:ratio=0.25,feedback=off", "threshold:tau=0.5", "threshold"}) {
    const Training t =
        pushing_together(2, false, compressed_pushes({sends_zeros(compression(code)), true, {}}));
    EXPECT_THROW(run_all(kLoopback, {with_audit(t)}), AuditError) << code;
    EXPECT_THAT(results_follow_the_flows(t, run_all(kLoopback, {t})[0]), Not(IsEmpty())) << code;
  }
}

// In half precision such numbers are subnormal: what they lose is no part of them any more.
TEST(CompressedPushes, OfTinyNumbersDoWhatTheyStateAndPassTheAudit) {
  for (const std::string code : {"fp16", "fp16:scale=256", "fp16:feedback=on", "bf16"})
    for (const float size : {1e-6f, 1e-9f}) {
      Training t = pushing_together(2, false, pushes(code));
      t.whole_numbers = false;
      t.size = size;
      EXPECT_NO_THROW(run_all(kLoopback, {with_audit(t)})) << code;
      EXPECT_THAT(results_follow_the_flows(t, run_all(kLoopback, {t})[0]), IsEmpty()) << code;
    }
}

// A worker that is made anew in the middle of a run goes on with what the old one kept.
TEST(CompressedPushes, GoOnFromACheckpoint) {
  for (const std::string& code : kCodes) {
    const auto crew_of = [&](Rank& rank) {
      return Crew{.rank = rank,
                  .workers = 2,
                  .servers = 2,
                  .colocated = true,
                  .collective = all_reduce_named("ring"),
                  .push_codes = pushes(code)};
    };
    EXPECT_EQ(weights_after("parameter-server", crew_of, 40, true),
              weights_after("parameter-server", crew_of, 40, false))
        << code;
  }
}

// One step of sizes alone, on lines that the push and the pull of 4 MiB fill for 0.2 s each.
double seconds_of_a_step(Rank& rank, const MakePushCode& codes) {
  const Crew crew{.rank = rank,
                  .workers = 2,
                  .servers = 1,
                  .collective = all_reduce_named("ring"),
                  .push_codes = codes};
  ToyReplica replica(nullptr, Memory::hollow, 1 << 20, 0.25f);
  const auto strategy = make_strategy("parameter-server", crew);
  strategy->begin(replica);
  const std::vector<std::size_t> samples{1, 1};
  const double start = rank.clock.now();
  if (crew.works())
    strategy->update(replica, {0, 0, samples});
  else
    strategy->parts().serving->serve(
        replica,
        [&](std::uint64_t n) {
          return Step{n, 0, samples};
        },
        0, 1);
  return rank.clock.now() - start;
}

// Shorter messages must not take longer: pulls go while pushes come, as they do without.
TEST(CompressedPushes, ThatGoInPiecesAreNoSlowerThanNumbersAsTheyAre) {
  SimulatedCluster cluster;
  cluster.ranks = 3;
  cluster.bandwidth_bytes_per_s = 2 * (4 << 20) / 0.4;
  run_simulated(cluster, [](Rank& rank) {
    const double plain = seconds_of_a_step(rank, {});
    for (const char* code : {"fp16", "int8"})
      EXPECT_LT(seconds_of_a_step(rank, pushes(code)), plain) << code << " on " << rank.rank();
  });
}

// More than a piece.
TEST(CompressedPushes, InPiecesBringEveryNumber) {
  for (const auto& [servers, colocated] : {std::pair(1, false), {2, false}, {3, true}}) {
    Training t = pushing_together(servers, colocated, pushes("fp16"));
    t.count = 400'000;
    t.steps = 2;
    Training plain = t;
    plain.push_codes = {};
    const auto outcomes = run_all(kLoopback, {t, plain});
    for (int w = 0; w < t.workers; ++w) {
      EXPECT_EQ(outcomes[0][w].model, outcomes[0][0].model);
      const Floats &got = outcomes[0][w].model, &due = outcomes[1][w].model;
      std::size_t off = 0;
      for (std::size_t i = 0; i < t.count; ++i) off += std::abs(got[i] - due[i]) > 0.1;
      EXPECT_EQ(off, 0u) << servers << " servers, worker " << w;
    }
  }
}

TEST(CompressedPushes, RefuseAStateThatIsDamaged) {
  run_loopback(1, [](Rank& rank) {
    const Crew crew{.rank = rank, .workers = 1, .collective = all_reduce_named("ring")};
    for (const std::string state : {"x", "3x", "-1", " ", "99999999999999999999999"})
      EXPECT_THROW(pushes("topk")(crew)->restore(state), UsageError) << state;
  });
}

// Of 23 numbers for two servers, by hand: a quarter of 12 and one of 11 are 3 pairs of 8 bytes.
TEST(CompressedPushes, OfTheLargestSendTheirPairsAndNothingElse) {
  const Outcome outcome =
      run_all(kLoopback, {pushing_together(2, false, pushes("topk:ratio=0.25"))})[0];
  for (int w = 0; w < 3; ++w)
    for (const Seen& seen : outcome[w].steps) EXPECT_EQ(seen.sent, 2 * 3 * 8u);
}

TEST(CompressedPushes, RefuseAnAuditThatCouldNotFollow) {
  run_loopback(1, [](Rank& rank) {
    const Crew crew{.rank = rank, .workers = 1, .collective = all_reduce_named("ring")};
    for (const OptimiserTerms& terms :
         {OptimiserTerms{.nesterov = true}, OptimiserTerms{.weight_decay = 0.1}}) {
      EXPECT_THROW(compressed_pushes({compression("dgc"), true, terms})(crew), UsageError);
      EXPECT_NO_THROW(compressed_pushes({compression("dgc"), false, terms})(crew));
    }
  });
}

// A server trusts nobody.
TEST(CompressedPushes, TakeNoMessageThatIsNone) {
  run_loopback(1, [](Rank& rank) {
    const Crew crew{.rank = rank, .workers = 1, .collective = all_reduce_named("ring")};
    for (const std::string& code : kCodes) {
      const auto pushed = compressed_pushes({compression(code)})(crew);
      Floats into(40), words(200);
      const Values numbers(into.data(), into.size(), Type::fp32);
      EXPECT_FALSE(pushed->decode({words.data(), pushed->most_bytes(numbers) + 4}, 0, numbers))
          << code;
      EXPECT_FALSE(pushed->decode({words.data(), 3}, 0, numbers)) << code;
    }
  });
}

}  // namespace
}  // namespace lockstep::testing
