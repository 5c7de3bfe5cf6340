// GoSGD: masses and what they weigh are conserved, whatever meets when.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compression/registry.h"
#include "strategies/compressed_push.h"
#include "strategies/peers/gossip_mail.h"
#include "strategies/servers/central_cases.h"
#include "transport/channels.h"
#include "transport/decorators/decorator.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;

ApartTraining of(const std::string& spec, int workers = 5) {
  ApartTraining t;
  t.make = [spec](const Crew& crew) { return make_strategy(spec, crew); };
  t.workers = workers;
  // No two alike: workers meet in all orders.
  for (int w = 0; w < workers; ++w) t.step_s.push_back(0.1 + 0.017 * w);
  return t;
}

double sum_of_masses(const ApartOutcome& outcome) {
  double sum = 0;
  for (const ApartRecord& record : outcome) sum += record.mass;
  return sum;
}

// The masses of the workers are multiples of 2^-47, so sums of doubles are exact.
class Gossip : public ::testing::TestWithParam<World> {};

TEST_P(Gossip, MassesAreExactlyTheWholeOnceAllRest) {
  const ApartOutcome outcome = run_apart(GetParam(), of("gossip:p=0.7", 7));
  EXPECT_EQ(sum_of_masses(outcome), 1);
  std::uint64_t taken = 0;
  for (const ApartRecord& record : outcome) taken += record.contributions.count;
  EXPECT_GT(taken, 0u);
}

// Workers start apart, and take no steps: then the mean by masses stays where it is.
TEST_P(Gossip, TheMeanByMassesIsConserved) {
  constexpr int m = 5, n = 17;
  std::vector<double> sums(n), masses(m);
  std::vector<Floats> rested(m);
  GetParam().run(m,
                 [&](Rank& rank) {
                   const Crew crew{rank, m, 0, false, all_reduce_named("ring")};
                   const auto strategy = make_strategy("gossip:p=0.6", crew);
                   strategy->parts().proofs->audit_exchanges(rank);
                   ToyReplica replica(nullptr, Memory::plain, n, 0.5f);
                   for (int i = 0; i < n; ++i)
                     replica.weight_span()[i] = static_cast<float>(rank.rank() + i);
                   strategy->begin(replica);
                   const auto samples = even_samples(m);
                   strategy->parts().apart->go();
                   for (std::uint64_t t = 0; t < 30; ++t) {
                     rank.clock.charge(0.1 + 0.013 * rank.rank());
                     std::ranges::fill(replica.gradient_span(), 0.f);
                     strategy->update(replica, {t, 0, samples});
                     if (t != 14) continue;
                     strategy->parts().apart->rest(replica);  // and on they go
                     strategy->parts().apart->go();
                   }
                   strategy->parts().apart->rest(replica);
                   masses[rank.rank()] = strategy->mass();
                   rested[rank.rank()] = copy_of(replica.weight_span());
                 },
                 {});
  EXPECT_EQ(std::accumulate(masses.begin(), masses.end(), 0.0), 1);
  for (int i = 0; i < n; ++i) {
    double mean = 0;
    for (int w = 0; w < m; ++w) mean += masses[w] * rested[w][i];
    EXPECT_NEAR(mean, i + 2, 1e-5);
  }
}

TEST_P(Gossip, WithoutSendsWorkersAreAlone) {
  ApartTraining t = of("gossip:p=0", 3);
  t.momentum = 0.9f;
  const ApartOutcome outcome = run_apart(GetParam(), t);
  for (int w = 0; w < 3; ++w) {
    ToyReplica alone(nullptr, Memory::plain, t.count, t.rate, t.momentum);
    for (std::size_t i = 0; i < t.count; ++i) alone.weight_span()[i] = static_cast<float>(i % 7);
    for (int step = 0; step < t.steps; ++step) {
      compute_gradient(t, w, step, alone);
      alone.apply_gradients(step);
      EXPECT_TRUE(same_bits(outcome[w].after[step], copy_of(alone.weight_span())));
    }
    EXPECT_EQ(outcome[w].exchanged.bytes_sent, 0u);
    EXPECT_EQ(outcome[w].contributions.count, 0u);
    EXPECT_NEAR(outcome[w].mass, 1.0 / 3, 1e-12);
  }
}

// Neither its mass nor the others' is lost at it.
TEST_P(Gossip, AWorkerWithoutSamplesTakesNoPart) {
  ApartTraining t = of("gossip:p=1", 4);
  t.samples = {4, 0, 4, 4};
  t.momentum = 0.9f;
  t.audit = true;
  const ApartOutcome outcome = run_apart(GetParam(), t);
  EXPECT_EQ(outcome[1].mass, 0);
  EXPECT_EQ(sum_of_masses(outcome), 0.75);
  EXPECT_EQ(outcome[1].exchanged.bytes_sent + outcome[1].exchanged.bytes_received, 0u);
  for (std::size_t i = 0; i < t.count; ++i)
    EXPECT_EQ(outcome[1].rested[i], static_cast<float>(i % 7));
  std::uint64_t taken = 0, sent = 0;
  for (const ApartRecord& record : outcome) {
    taken += record.contributions.count;
    sent += record.exchanged.bytes_sent;
    const std::vector<double>& weight = record.contributions.weight;
    EXPECT_EQ(weight.size() > 1 ? weight[1] : 0, 0);
  }
  EXPECT_EQ(outcome[1].contributions.count, 0u);
  // All that was sent was taken in; on threads one may be done before others begin.
  EXPECT_EQ(sent, taken * (4 * t.count + sizeof(GossipHead)));
  if (GetParam().name == "simulated") {
    EXPECT_GT(taken, 40u) << "of three workers' twenty steps";
  }
}

// Every send is 4N + 8 bytes, and there are as many as the seed's random numbers say, but for those
// that are counted: nobody else trained any more, or too many had not left yet.
TEST_P(Gossip, SendsFourNAndEightBytes) {
  const ApartTraining t = of("gossip:p=0.3");
  std::vector<std::uint64_t> due(t.workers);
  ApartOutcome outcome(t.workers);
  GetParam().run(t.workers,
                 [&](Rank& rank) {
                   Rng random = rank.random(purpose_of("gossip"));
                   for (int step = 0; step < t.steps; ++step)
                     if (random.uniform() < 0.3) {
                       (void)random.below(t.workers - 1);
                       ++due[rank.rank()];
                     }
                   outcome[rank.rank()] = train_apart(t, rank);
                 },
                 {});
  std::uint64_t sends = 0;
  for (int w = 0; w < t.workers; ++w) {
    const Sends& missing = outcome[w].sends;
    // Who finds nobody to send to draws no peer, so that its later numbers are others: on threads
    // one may be done before others begin.
    if (missing.withheld > 0 && GetParam().name != "simulated") continue;
    EXPECT_EQ(outcome[w].exchanged.bytes_sent,
              (due[w] - missing.merged - missing.withheld) * (4 * t.count + 8))
        << w;
    sends += due[w];
  }
  EXPECT_GT(sends, 15u);
  EXPECT_LT(sends, 45u);  // of 100
}

// Adds up the masses of what is sent, by receiver.
class Weighing final : public Decorator {
 public:
  explicit Weighing(Transport& inner) : Decorator(inner), sent(inner.size()) {}
  Request post_send(int to, Tag tag, ConstBytes bytes) override {
    if (tag.key() == channels::kGossipHead.key() && bytes.size > 0) {
      GossipHead head;
      std::memcpy(&head.mass_and_step, bytes.data, sizeof head.mass_and_step);
      sent[to] += static_cast<double>(head.mass()) * 0x1p-47;
    }
    return Decorator::post_send(to, tag, bytes);
  }
  std::vector<double> sent;
};

// The same of a job.
class WeighingBackground final : public Background {
 public:
  WeighingBackground(Background& inner, int ranks) : sent(ranks), inner_(inner) {}
  std::uint64_t post(Job job) override {
    return inner_.post([this, job = std::move(job)](Transport& lane) {
      Weighing weighing(lane);
      job(weighing);
      for (std::size_t to = 0; to < sent.size(); ++to) sent[to] += weighing.sent[to];
    });
  }
  void wait(std::uint64_t number) override { inner_.wait(number); }
  void ring() override { inner_.ring(); }
  std::vector<double> sent;  // of jobs that are done

 private:
  Background& inner_;
};

// Lost is what it had, and what was sent to it that it had not taken: nothing else.
TEST_P(Gossip, GoesOnWithoutAWorkerThatLeft) {
  ApartTraining t = of("gossip:p=0.5");
  t.leaves = 2;
  t.audit = true;
  FabricOptions options;
  options.patience_seconds = 20;
  ApartOutcome outcome(t.workers);
  std::vector<std::vector<double>> sent(t.workers);  // by sender and receiver
  GetParam().run(
      t.workers,
      [&](Rank& outer) {
        WeighingBackground weighing(outer.background, outer.size());
        Rank rank{outer.peers, outer.clock, weighing, outer.lock, outer.seed};
        outcome[rank.rank()] = train_apart(t, rank);
        drain(outer.background);
        sent[rank.rank()] = weighing.sent;
      },
      options);
  double to_it = 0, to_others = 0;
  for (int w = 0; w < t.workers; ++w) {
    EXPECT_EQ(outcome[w].left, w == t.leaves);
    EXPECT_EQ(std::ssize(outcome[w].after), w == t.leaves ? 5 : t.steps);
    to_it += sent[w][t.leaves];
    to_others += sent[t.leaves][w];
  }
  const double first =
      static_cast<double>(chunk(std::uint64_t{1} << 47, t.workers, t.leaves).count);
  const double taken = outcome[t.leaves].mass - first * 0x1p-47 + to_others;
  EXPECT_GE(to_it, taken);
  EXPECT_EQ(sum_of_masses(outcome) + to_it - taken, 1);
}

MakePushCode as(const std::string& code) {
  return compressed_pushes({.compression = compression(code)});
}

// A code that is wrong about the scale, of what it sends or of what comes.
class WrongScale final : public PushCode {
 public:
  WrongScale(std::unique_ptr<PushCode> inner, bool of_what_comes)
      : inner_(std::move(inner)), of_what_comes_(of_what_comes) {}
  ConstBytes encode(Values numbers, std::size_t first, std::vector<std::byte>& memory) override {
    if (!of_what_comes_) scale(numbers, 3);
    return inner_->encode(numbers, first, memory);
  }
  std::size_t most_bytes(Values numbers) const override { return inner_->most_bytes(numbers); }
  bool decode(ConstBytes message, std::size_t first, Values into) const override {
    if (!inner_->decode(message, first, into)) return false;
    if (of_what_comes_) scale(into, 1.01);
    return true;
  }
  Holds holds() const override { return inner_->holds(); }

 private:
  const std::unique_ptr<PushCode> inner_;
  const bool of_what_comes_;
};

const std::vector<std::string> kCodes = {"fp16", "bf16", "int8:bucket=8", "qsgd:bucket=8",
                                         "threshold"};

// Masses stay exact, and what is mixed in is what a message says.
TEST_P(Gossip, InFewerBytesPassesTheAudit) {
  std::vector<ApartTraining> trainings;
  for (const std::string& code : kCodes) {
    trainings.push_back(of("gossip:p=0.5"));
    trainings.back().push_codes = as(code);
    trainings.back().audit = true;
  }
  for (const ApartOutcome& outcome : run_apart_all(GetParam(), trainings))
    EXPECT_EQ(sum_of_masses(outcome), 1);
}

TEST_P(Gossip, InFewerBytesSendsTheMessageAndTheMass) {
  ApartTraining t = of("gossip:p=1", 2);
  t.push_codes = as("fp16");
  const ApartOutcome outcome = run_apart(GetParam(), t);
  for (const ApartRecord& record : outcome)
    EXPECT_EQ(record.exchanged.bytes_sent, (t.steps - record.sends.merged - record.sends.withheld) *
                                               (2 * t.count + sizeof(std::uint64_t)));
}

using BugOfGossipCode = ::testing::TestWithParam<std::tuple<std::string, bool>>;
TEST_P(BugOfGossipCode, IsFoundByTheAudit) {
  const auto& [code, of_what_comes] = GetParam();
  ApartTraining t = of("gossip:p=1");
  t.push_codes = [=](const Crew& crew) {
    return std::make_unique<WrongScale>(as(code)(crew), of_what_comes);
  };
  EXPECT_THROW(run_tampered({"loopback", run_loopback}, t, {[](Tag) { return false; }}),
               AuditError);
}
INSTANTIATE_TEST_SUITE_P(Every, BugOfGossipCode,
                         ::testing::Combine(::testing::ValuesIn(kCodes), ::testing::Bool()));

// The weights, or what their head says of them.
TEST_P(Gossip, TheAuditFindsWeightsThatChangedOnTheirWay) {
  const Tamper weights{[](Tag tag) { return tag.key() == channels::kGossipWeights.key(); }};
  EXPECT_THROW(run_tampered(GetParam(), of("gossip:p=0.5"), weights), AuditError);
}
TEST_P(Gossip, TheAuditFindsHeadsThatChangedOnTheirWay) {
  const Tamper heads{[](Tag tag) { return tag.key() == channels::kGossipHead.key(); }};
  EXPECT_THROW(run_tampered(GetParam(), of("gossip:p=0.5"), heads), AuditError);
}

// Large enough that a message is not through at once.
TEST_P(Gossip, LongVectorsAreConservedToo) {
  ApartTraining t = of("gossip:p=1", 3);
  t.count = 700'001;
  t.steps = 8;
  t.audit = true;
  const ApartOutcome outcome = run_apart(GetParam(), t);
  EXPECT_EQ(sum_of_masses(outcome), 1);
  for (const ApartRecord& record : outcome) {
    EXPECT_EQ(record.exchanged.bytes_sent, (t.steps - record.sends.merged - record.sends.withheld) *
                                               (4 * t.count + sizeof(GossipHead)));
    EXPECT_LT(record.sends.merged, 4u);  // a message is through long before the next but one
  }
}

INSTANTIATE_TEST_SUITE_P(Every, Gossip, ::testing::ValuesIn(strategy_worlds()),
                         [](const auto& info) { return info.param.name; });

class GossipInSimulation : public ::testing::Test {
 protected:
  // Several trainings on one fabric, one after the other.
  static std::vector<ApartOutcome> run(const std::vector<ApartTraining>& trainings) {
    std::vector<ApartOutcome> outcomes(trainings.size(), ApartOutcome(5));
    run_simulated_fabric(5,
                         [&](Rank& rank) {
                           for (std::size_t i = 0; i < trainings.size(); ++i)
                             outcomes[i][rank.rank()] = train_apart(trainings[i], rank);
                         },
                         {});
    return outcomes;
  }
};

TEST_F(GossipInSimulation, OneSeedGivesTheSameBitsTwice) {
  const ApartTraining t = of("gosgd:p=0.5");
  const auto outcomes = run({t, t});
  for (int w = 0; w < t.workers; ++w) {
    EXPECT_TRUE(same_bits(outcomes[0][w].rested, outcomes[1][w].rested));
    EXPECT_EQ(outcomes[0][w].mass, outcomes[1][w].mass);
  }
}

TEST_F(GossipInSimulation, HollowWeightsSendTheSameBytes) {
  const ApartTraining full = of("gossip:p=0.5");
  ApartTraining hollow = full;
  hollow.memory = Memory::hollow;
  const auto outcomes = run({full, hollow});
  for (int w = 0; w < full.workers; ++w) {
    EXPECT_EQ(outcomes[0][w].exchanged.bytes_sent, outcomes[1][w].exchanged.bytes_sent);
    EXPECT_EQ(outcomes[0][w].mass, outcomes[1][w].mass);
  }
}

// Three times as slow: the others take their own time, and meet what is old.
TEST_F(GossipInSimulation, NobodyWaitsForASlowWorker) {
  ApartTraining t = of("gossip:p=0.5");
  t.step_s = {0.1, 0.1, 0.3, 0.1, 0.1};
  const auto outcome = run({t})[0];
  std::size_t oldest = 0;
  for (int w = 0; w < t.workers; ++w) {
    EXPECT_NEAR(outcome[w].trained_s, t.steps * t.step_s[w], 1e-3);
    EXPECT_EQ(outcome[w].waited_s, 0);
    oldest = std::max(oldest, outcome[w].contributions.staleness.size());
  }
  EXPECT_GT(oldest, 8u);
  EXPECT_LE(oldest, 21u);
}

TEST_F(GossipInSimulation, EverybodyIsChosenByEverybody) {
  ApartTraining t = of("gossip:p=1");
  t.steps = 200;
  const auto outcome = run({t})[0];
  for (int w = 0; w < t.workers; ++w) {
    std::vector<double> weight = outcome[w].contributions.weight;
    weight.resize(t.workers);
    for (int from = 0; from < t.workers; ++from)
      EXPECT_EQ(weight[from] > 0, from != w) << from << " to " << w;
  }
}

// Who still trains sends to nobody that only waits: else it would give all it has away.
TEST_F(GossipInSimulation, ALateWorkerKeepsItsMass) {
  ApartTraining t = of("gossip:p=1", 4);
  t.steps = 60;
  t.step_s = {0.1, 0.3, 0.1, 0.1};
  ApartOutcome outcome(t.workers);
  run_simulated_fabric(t.workers, [&](Rank& rank) { outcome[rank.rank()] = train_apart(t, rank); },
                       {});
  EXPECT_EQ(sum_of_masses(outcome), 1);
  EXPECT_GT(outcome[1].mass, 1e-3);
  // The others rest after 6 s, when it has taken 20 of its steps.
  EXPECT_NEAR(static_cast<double>(outcome[1].sends.withheld), 40, 1);
}

// Two epochs of 100 steps, at the same speed, of which the second worker has samples in the first
// 50: after 10 s it rests, when the other has 100 steps before it.
TEST_F(GossipInSimulation, WhoTrainsIsSentToWhateverItsStep) {
  ApartTraining t = of("gossip:p=1", 2);
  t.steps = 200;
  t.step_s = {0.1, 0.1};
  t.idle = [](int w, std::uint64_t step) { return w == 1 && step % 100 >= 50; };
  t.empty_steps_take_time = false;
  t.audit = true;
  ApartOutcome outcome(t.workers);
  run_simulated_fabric(t.workers, [&](Rank& rank) { outcome[rank.rank()] = train_apart(t, rank); },
                       {});
  EXPECT_NEAR(static_cast<double>(outcome[0].sends.withheld), 100, 1);
  EXPECT_EQ(outcome[1].sends.withheld, 0u);
  EXPECT_EQ(sum_of_masses(outcome), 1);
  for (const ApartRecord& record : outcome) EXPECT_GT(record.mass, 1e-3);
}

// The first message to it is on its way when it leaves, and more wait.
TEST_F(GossipInSimulation, AllThatWaitsForAWorkerThatLeftComesBack) {
  ApartTraining t = of("gossip:p=1", 2);
  t.leaves = 1;
  t.steps = 6;
  t.count = 20'000;  // too long to leave at once
  SimulatedCluster cluster;
  cluster.ranks = t.workers;
  cluster.latency_s = 1;
  ApartOutcome outcome(t.workers);
  run_simulated(cluster, [&](Rank& rank) { outcome[rank.rank()] = train_apart(t, rank); });
  EXPECT_TRUE(outcome[1].left);
  EXPECT_EQ(std::ssize(outcome[0].after), t.steps);
  EXPECT_GE(outcome[0].mass, 0.25);  // of a half; the other's may have come too late
}

// It gets what others send before it has its first samples, and brings its own mass then.
TEST_F(GossipInSimulation, AWorkerMayJoinLate) {
  ApartTraining t = of("gossip:p=1", 3);
  t.idle = [](int w, std::uint64_t step) { return w == 2 && step < 10; };
  t.audit = true;
  ApartOutcome outcome(t.workers);
  run_simulated_fabric(t.workers, [&](Rank& rank) { outcome[rank.rank()] = train_apart(t, rank); },
                       {});
  EXPECT_EQ(sum_of_masses(outcome), 1);
  EXPECT_NE(outcome[2].after[9], outcome[2].after[0]);
}

// What has come while a gradient was computed is mixed in behind the step, right before the next
// gradient: two messages of worker 0, sent in 0.1 and 0.2 s, when worker 1 has its first.
TEST_F(GossipInSimulation, TheInboxIsEmptiedBeforeTheNextGradientIsTaken) {
  ApartTraining t = of("gossip:p=1", 2);
  t.steps = 3;
  t.step_s = {0.1, 0.25};
  ApartOutcome outcome(t.workers);
  run_simulated_fabric(t.workers, [&](Rank& rank) { outcome[rank.rank()] = train_apart(t, rank); },
                       {});
  ToyReplica alone(nullptr, Memory::plain, t.count, t.rate);
  for (std::size_t i = 0; i < t.count; ++i) alone.weight_span()[i] = static_cast<float>(i % 7);
  compute_gradient(t, 1, 0, alone);
  alone.apply_gradients(0);
  // Masses: 1/4 and 1/8 came, and 1/4 is left of its own after it sent a half.
  for (std::size_t i = 0; i < t.count; ++i) {
    const double x = alone.weight_span()[i];
    const double came = (2 * outcome[0].after[0][i] + outcome[0].after[1][i]) / 3.0;
    EXPECT_NEAR(outcome[1].after[0][i], x + 0.6 * (came - x), 1e-5) << i;
  }
}

// Two messages take longer than a step: no worker waits, and what is merged is counted.
TEST_F(GossipInSimulation, OnASlowNetworkSendsAreMergedAndCounted) {
  ApartTraining t = of("gossip:p=1", 2);
  t.count = 100'000;
  t.steps = 40;
  t.step_s = {0.1, 0.1};
  t.audit = true;
  SimulatedCluster cluster;
  cluster.ranks = t.workers;
  cluster.bandwidth_bytes_per_s = 1e6;  // 0.4 s a message
  ApartOutcome outcome(t.workers);
  run_simulated(cluster, [&](Rank& rank) { outcome[rank.rank()] = train_apart(t, rank); });
  EXPECT_EQ(sum_of_masses(outcome), 1);
  for (const ApartRecord& record : outcome) {
    EXPECT_NEAR(record.trained_s, t.steps * 0.1, 1e-3);
    EXPECT_GT(record.sends.merged, 10u);
    EXPECT_EQ(record.exchanged.bytes_sent,
              (t.steps - record.sends.merged) * (4 * t.count + sizeof(GossipHead)));
    EXPECT_NEAR(record.hidden_s, record.trained_s, 0.2);
  }
}

// In the midst of a message, on a slow network.
TEST_F(GossipInSimulation, GoesOnWithoutWorkersThatDied) {
  ApartTraining t = of("gossip:p=1");
  t.count = 100'000;
  SimulatedCluster cluster;
  cluster.ranks = t.workers;
  cluster.bandwidth_bytes_per_s = 5e6;
  cluster.patience_s = 20;
  cluster.deaths = {{3, 0.75}, {0, 1.23}};
  ApartOutcome outcome(t.workers);
  run_simulated(cluster, [&](Rank& rank) { outcome[rank.rank()] = train_apart(t, rank); });
  for (const int w : {1, 2, 4}) EXPECT_EQ(std::ssize(outcome[w].after), t.steps);
  EXPECT_LT(sum_of_masses(outcome), 1);
}

// At rest they are all waited for, as long as it takes.
TEST_F(GossipInSimulation, WeightsMayTakeLongerThanTheTransportIsPatient) {
  ApartTraining t = of("gossip:p=1", 2);
  t.count = 100'000;
  t.steps = 2;
  t.step_s = {0.1, 0.15};  // both rest long before the other's first message, of 10 s, has come
  SimulatedCluster cluster;
  cluster.ranks = t.workers;
  cluster.bandwidth_bytes_per_s = 4e4;
  cluster.patience_s = 1;
  ApartOutcome outcome(t.workers);
  run_simulated(cluster, [&](Rank& rank) { outcome[rank.rank()] = train_apart(t, rank); });
  EXPECT_EQ(sum_of_masses(outcome), 1);
  for (const ApartRecord& record : outcome) EXPECT_GT(record.contributions.count, 0u);
}

TEST(GossipState, MassAndRandomNumbersSurvive) {
  run_loopback(3, [](Rank& rank) {
    const Crew crew{rank, 3, 0, false, all_reduce_named("ring")};
    const auto one = make_strategy("gossip", crew), other = make_strategy("gossip", crew);
    EXPECT_NEAR(one->mass(), 1.0 / 3, 1e-12);
    other->restore("1234 " + one->state().substr(one->state().find(' ') + 1));
    EXPECT_EQ(other->mass(), 1234 * 0x1p-47);
    one->restore(other->state());
    EXPECT_EQ(one->state(), other->state());
    EXPECT_THROW(one->restore("12"), UsageError);
  });
}

TEST(GossipState, RefusesWhatIsNoProbability) {
  for (const std::string p : {"1.5", "-0.1", "nan"}) try {
      check_strategy("gossip:p=" + p, {2});
      FAIL() << p;
    } catch (const UsageError& e) {
      EXPECT_THAT(e.what(), HasSubstr("p"));
    }
}

}  // namespace
}  // namespace lockstep::testing
