// What all strategies with a central model promise: one seed gives the same bits, sizes alone move
// the same bytes, segments follow each other, deaths are survived or named, and lies are found.
#include "central_cases.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

struct InWorld {
  World world;
  std::string spec;
  std::string name() const {
    std::string name = world.name + "_" + spec;
    std::ranges::replace_if(
        name, [](unsigned char x) { return !std::isalnum(x); }, '_');
    return name;
  }
  friend std::ostream& operator<<(std::ostream& out, const InWorld& x) { return out << x.name(); }
};

std::vector<InWorld> everywhere(const std::string& worlds) {
  std::vector<InWorld> all;
  for (const World& world : strategy_worlds())
    for (const char* spec : {"asp", "ssp:s=1", "downpour:push=2,fetch=3", "easgd:period=2",
                             "easgd:period=2,momentum=0.5", "easgd:period=2,mode=sync"})
      if (worlds.find(world.name) != worlds.npos) all.push_back({world, spec});
  return all;
}

class Central : public ::testing::TestWithParam<InWorld> {
 protected:
  const World& world() const { return GetParam().world; }
  ApartTraining training(int workers, int servers) const {
    return apart(GetParam().spec, workers, servers);
  }
};
class CentralInSimulation : public Central {};

TEST_P(CentralInSimulation, OneSeedGivesTheSameBitsTwice) {
  ApartTraining t = training(3, 2);
  t.gradient = rough_gradient;
  t.momentum = 0.9f;
  t.step_s = {0.1, 0.1371, 0.1713};
  const auto outcomes = run_apart_all(world(), {t, t});
  expect_same_bits(outcomes[0], outcomes[1]);
}

// Long enough that workers push one after the other, when the server says so.
TEST_P(Central, LongPushesTakeTurnsAndNothingIsLost) {
  for (const int leaves : {-1, 1}) {
    if (leaves >= 0 &&
        (GetParam().spec.find("sync") != std::string::npos || world().name == "simulated"))
      continue;  // who is synchronous stops; a process has one simulation
    ApartTraining t = training(4, 2);
    t.count = 140'000;
    t.steps = 8;
    t.gradient = whole_gradient;
    t.audit = true;
    t.leaves = leaves;
    const ApartOutcome outcome = run_apart(world(), t);
    for (int w = 0; w < t.workers; ++w) {
      if (w == leaves) continue;
      EXPECT_THAT(outcome[w].after, SizeIs(8));
      EXPECT_EQ(outcome[w].model, outcome[0].model);
    }
    if (GetParam().spec != "asp") continue;
    for (const std::size_t i : {std::size_t{0}, t.count - 1})
      EXPECT_EQ(outcome[0].model[i], static_cast<double>(i % 7) - t.rate * whole_sum(t, i));
  }
}

TEST_P(CentralInSimulation, SizesAloneMoveTheSameBytesInTheSameTime) {
  ApartTraining t = training(3, 2), hollow = t;
  t.count = hollow.count = 1001;
  t.step_s = hollow.step_s = {0.1, 0.1371, 0.1713};
  hollow.memory = Memory::hollow;
  const auto outcomes = run_apart_all(world(), {t, hollow});
  for (int r = 0; r < t.ranks(); ++r) {
    EXPECT_EQ(outcomes[0][r].exchanged, outcomes[1][r].exchanged);
    EXPECT_EQ(outcomes[0][r].contributions.staleness, outcomes[1][r].contributions.staleness);
    EXPECT_NEAR(outcomes[0][r].trained_s, outcomes[1][r].trained_s, 1e-9);
  }
}

TEST_P(CentralInSimulation, AWorkerThatIsKilledIsNoConcernOfOthersUnlessInSync) {
  const ApartTraining t = training(3, 2);
  SimulatedCluster cluster;
  cluster.ranks = t.ranks();
  cluster.deaths = {{1, 0.5500001}};
  ApartOutcome outcome(t.ranks());
  const auto body = [&](Rank& rank) { outcome[rank.rank()] = train_apart(t, rank); };
  if (GetParam().spec.ends_with("mode=sync")) {
    try {
      run_simulated(cluster, body);
      FAIL() << "nobody noticed";
    } catch (const TransportError& e) {
      EXPECT_EQ(e.peer(), 1) << e.what();
    }
    return;
  }
  run_simulated(cluster, body);
  for (const int w : {0, 2}) EXPECT_THAT(outcome[w].after, SizeIs(20));
}

INSTANTIATE_TEST_SUITE_P(Every, CentralInSimulation, ::testing::ValuesIn(everywhere("simulated")),
                         [](const auto& info) { return info.param.name(); });

// One segment of training on every rank; the last word of each is rest().
struct Segments {
  std::vector<Floats> models;  // what worker 0 was told before and after each rest
  Traffic evaluated;
};
Segments train_segments(const World& world, const ApartTraining& t, int segments) {
  Segments seen;
  world.run(
      t.ranks(),
      [&](Rank& outer) {
        Ledger ledger(outer.size());
        Metered metered(outer.peers, ledger);
        MeteredBackground background(outer.background, outer.size());
        Rank rank{metered, outer.clock, background, outer.lock, outer.seed};
        const Crew crew{rank, t.workers, t.servers, false, all_reduce_named("ring")};
        const auto strategy = t.make(crew);
        ToyReplica replica(nullptr, Memory::plain, t.count, t.rate, t.momentum);
        strategy->begin(replica);
        const auto samples = even_samples(t.workers);
        const auto step_at = [&](std::uint64_t n) { return Step{n, 0, samples}; };
        const int steps = t.steps / segments;
        for (int s = 0; s < segments; ++s) {
          if (!crew.works()) {
            strategy->parts().serving->serve(replica, step_at, s * steps, (s + 1) * steps);
            continue;
          }
          for (int n = s * steps; n < (s + 1) * steps; ++n) {
            compute_gradient(t, rank.rank(), n, replica);
            strategy->update(replica, step_at(n));
          }
          Floats model(t.count);
          const Values into(model.data(), t.count, Type::fp32);
          for (const bool rested : {false, true}) {
            if (rested) strategy->parts().apart->rest(replica);
            EXPECT_TRUE(strategy->parts().apart->fetch_model(into));
            if (rank.rank() == 0) seen.models.push_back(model);
          }
        }
        if (rank.rank() != 0) return;
        seen.evaluated = total_of(ledger, Purpose::evaluation);
        seen.evaluated += total_of(background.ledger(), Purpose::evaluation);
      },
      FabricOptions{});
  return seen;
}

TEST_P(Central, SegmentsFollowEachOtherAndModelsCanBeHadAtAnyTime) {
  ApartTraining t = training(1, 2);
  t.gradient = whole_gradient;
  t.steps = 24;
  const Segments seen = train_segments(world(), t, 2);
  ASSERT_THAT(seen.models, SizeIs(4));
  // One worker's pushes are all in before it asks.
  EXPECT_TRUE(same_bits(seen.models[0], seen.models[1]));
  EXPECT_TRUE(same_bits(seen.models[2], seen.models[3]));
  EXPECT_FALSE(same_bits(seen.models[1], seen.models[2]));
  // Twice asked, and twice told at rest.
  EXPECT_EQ(seen.evaluated.bytes_received, 4 * 4 * t.count);
  if (GetParam().spec.find("easgd") != std::string::npos) return;
  for (std::size_t i = 0; i < t.count; ++i)
    EXPECT_EQ(seen.models[3][i], -t.rate * whole_sum(t, i)) << i;
}

TEST_P(Central, AServerThatIsGoneIsNamedAndStopsAll) {
  const ApartTraining t = training(3, 2);
  std::vector<std::string> said(t.ranks());
  world().run(
      t.ranks(),
      [&](Rank& rank) {
        if (rank.rank() == 4) return;
        try {
          train_apart(t, rank);
        } catch (const TransportError& e) {
          EXPECT_EQ(e.peer(), 4) << e.what();
          said[rank.rank()] = e.what();
        }
      },
      FabricOptions{});
  for (int r = 0; r < 4; ++r) EXPECT_THAT(said[r], HasSubstr("left"));
}

// Worker 1 leaves because worker 0 did, which is whom errors name then: the server loses both, one
// after the other.
TEST_P(Central, AWorkerThatLeavesBecauseOfAnotherIsLostItself) {
  if (GetParam().spec.ends_with("mode=sync")) return;  // all stop with the first
  const ApartTraining t = training(3, 1);
  ApartOutcome outcome(t.ranks());
  world().run(
      t.ranks(),
      [&](Rank& rank) {
        ApartTraining mine = t;
        if (rank.rank() < 2) mine.leaves = rank.rank();
        outcome[rank.rank()] = train_apart(mine, rank);
        if (rank.rank() != 1) return;
        Pending never = rank.peers.recv(0, {Purpose::control, 7}, {});
        EXPECT_THROW(rank.peers.wait(never), TransportError);
      },
      FabricOptions{});
  EXPECT_THAT(outcome[2].after, SizeIs(t.steps));
  EXPECT_EQ(outcome[2].model, model_at_servers(t, outcome));
}

TEST_P(Central, TheAuditFindsPushesThatChangedOnTheirWay) {
  const Tamper pushes{[](Tag tag) { return tag.purpose == Purpose::gradients; }};
  EXPECT_THROW(run_tampered(world(), training(2, 1), pushes), AuditError);
}

TEST_P(Central, TheAuditFindsPullsThatChangedOnTheirWay) {
  const Tamper pulls{[](Tag tag) { return tag.purpose == Purpose::weights; }};
  EXPECT_THROW(run_tampered(world(), training(2, 1), pulls), AuditError);
}

INSTANTIATE_TEST_SUITE_P(Every, Central, ::testing::ValuesIn(everywhere("loopback shm simulated")),
                         [](const auto& info) { return info.param.name(); });

TEST(CentralParameters, AreRefusedWithWhatWouldBeRight) {
  for (const char* spec : {"ssp:s=-1", "downpour:push=0", "downpour:fetch=0", "easgd:tau=0",
                           "easgd:beta=1.5", "easgd:momentum=1", "easgd:mode=both"})
    EXPECT_THROW(check_strategy(spec, {2, 1}), UsageError) << spec;
  EXPECT_THROW(check_strategy("hogwild:updates=some", {2}), UsageError);
  EXPECT_EQ(full_spec("easgd:tau=8"), "easgd:period=8,beta=0.9,mode=async,momentum=0");
  EXPECT_EQ(full_spec("ssp:s=10"), "ssp:staleness=10");
}

}  // namespace
}  // namespace lockstep::testing
