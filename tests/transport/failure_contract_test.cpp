// Peers that are late, gone, or disagree.
#include "transport/contract.h"

namespace lockstep::testing {
namespace {

class FailureContract : public TransportContract {};

TEST_P(FailureContract, ADeadlineNamesThePeerAndLeavesTheRequestOpen) {
  run(2, [](Rank& r) {
    int got = 0, value = 3;
    if (r.rank() == 0) {
      Pending q = r.peers.recv(1, kTag, bytes_of(got));
      const auto e = error_of([&] { r.peers.wait(q, {r.peers.now() + 0.02}); });
      EXPECT_EQ(e.kind(), TransportError::Kind::deadline);
      EXPECT_EQ(e.peer(), 1);
      r.peers.wait(r.peers.send(1, kOther, bytes_of(value)));
      r.peers.wait(q);
      EXPECT_EQ(got, 3);
    } else {
      r.peers.wait(r.peers.recv(0, kOther, bytes_of(value)));
      r.peers.wait(r.peers.send(0, kTag, bytes_of(value)));
    }
  });
}

TEST_P(FailureContract, ADepartedPeerIsNamedButItsMessagesStillArrive) {
  run(3, [](Rank& r) {
    int value = 4, got = 0;
    if (r.rank() == 1) {
      r.peers.wait(r.peers.send(0, kTag, bytes_of(value)));
    } else if (r.rank() == 0) {
      r.peers.wait(r.peers.recv(2, kOther, bytes_of(got)));  // by then rank 1 has left
      r.peers.wait(r.peers.recv(1, kTag, bytes_of(got)));
      EXPECT_EQ(got, 4);
      const auto e = error_of([&] { r.peers.wait(r.peers.recv(1, kTag, bytes_of(got))); });
      EXPECT_EQ(e.kind(), TransportError::Kind::left);
      EXPECT_EQ(e.peer(), 1);
    } else {
      const auto e = error_of([&] { r.peers.wait(r.peers.recv(1, kTag, bytes_of(got))); });
      EXPECT_EQ(e.kind(), TransportError::Kind::left);
      r.peers.wait(r.peers.send(0, kOther, bytes_of(value)));
    }
  });
}

TEST_P(FailureContract, AWaitSaysWhichPeerIsGoneAndTheOthersStayOpen) {
  run(4, [](Rank& r) {
    int value = 4, got[3] = {};
    if (r.rank() == 2) return;
    if (r.rank() != 0) {
      r.peers.wait(r.peers.recv(0, kOther, bytes_of(got[0])));
      r.peers.wait(r.peers.send(0, kTag, bytes_of(value)));
      return;
    }
    std::vector<Pending> open;
    for (const int peer : {1, 2, 3})
      open.push_back(r.peers.recv(peer, kTag, bytes_of(got[peer - 1])));
    const Ending ending = r.peers.wait_any(requests_of(open), r.peers.patience());
    EXPECT_TRUE(ending.gone());
    EXPECT_FALSE(ending.late());
    EXPECT_EQ(ending.index, 1u);
    EXPECT_EQ(ending.failure->kind(), TransportError::Kind::left);
    EXPECT_EQ(ending.failure->peer(), 2);
    EXPECT_THROW((void)ending.or_throw(), TransportError);
    for (const int peer : {1, 3}) {
      r.peers.wait(r.peers.send(peer, kOther, bytes_of(value)));
      EXPECT_EQ(r.peers.wait(open[peer - 1]).from, peer);
      EXPECT_EQ(got[peer - 1], 4);
    }
  });
}

TEST_P(FailureContract, AChainOfDeparturesNamesTheFirst) {
  EXPECT_THROW(run(4,
                   [](Rank& r) {
                     int got = 0;
                     if (r.rank() == 0) return;
                     const auto e = error_of(
                         [&] { r.peers.wait(r.peers.recv(r.rank() - 1, kTag, bytes_of(got))); });
                     EXPECT_EQ(e.peer(), 0) << e.what();
                     throw e;
                   }),
               TransportError);
}

TEST_P(FailureContract, DisagreementOnTypeAndSizeIsNamed) {
  run(3, [](Rank& r) {
    std::vector<float> v(8);
    const Tag fp32 = kTag.with_format(Values(v.data(), 8, Type::fp32).format());
    const Tag fp64 = kTag.with_format(Values(v.data(), 4, Type::fp64).format());
    if (r.rank() == 1) r.peers.wait(r.peers.send(0, fp64, raw(v)));
    if (r.rank() == 2) r.peers.wait(r.peers.send(0, fp32, raw(v)));
    if (r.rank() != 0) return;
    const auto type = error_of([&] { r.peers.wait(r.peers.recv(1, fp32, raw(v))); });
    EXPECT_EQ(type.kind(), TransportError::Kind::mismatch);
    EXPECT_THAT(type.what(),
                ::testing::AllOf(::testing::HasSubstr("fp64"), ::testing::HasSubstr("fp32")));
    const auto size = error_of([&] { r.peers.wait(r.peers.recv(2, fp32, raw(v).part(0, 16))); });
    EXPECT_EQ(size.kind(), TransportError::Kind::mismatch);
    EXPECT_EQ(size.peer(), 2);
    EXPECT_THAT(size.what(),
                ::testing::AllOf(::testing::HasSubstr("32 bytes"), ::testing::HasSubstr("16")));
  });
}

TEST_P(FailureContract, PeersOutOfRangeAreRefused) {
  run(2, [](Rank& r) {
    for (const int bad : {-2, 2, r.rank()}) {
      EXPECT_THROW((void)r.peers.send(bad, kTag, {}), UsageError);
      EXPECT_THROW((void)r.peers.recv(bad, kTag, {}), UsageError);
    }
  });
}

TEST_P(FailureContract, AFailedBackgroundJobIsToldOnce) {
  run(1, [](Rank& r) {
    bool ran = false;
    r.background.post([](Transport&) { throw InternalError("planted"); });
    r.background.post([&](Transport&) { ran = true; });
    EXPECT_THROW(drain(r.background), InternalError);
    EXPECT_FALSE(ran);
    r.background.post([&](Transport&) { ran = true; });
    drain(r.background);
    EXPECT_TRUE(ran);
  });
}

TEST_P(FailureContract, TheFirstErrorOfARankIsThrown) {
  EXPECT_THROW(run(3,
                   [](Rank& r) {
                     int got = 0;
                     if (r.rank() == 1) throw UsageError("planted");
                     r.peers.wait(r.peers.recv(1, kTag, bytes_of(got)));
                   }),
               UsageError);
}

INSTANTIATE_TEST_SUITE_P(Worlds, FailureContract, ::testing::ValuesIn(contract_worlds()),
                         world_name);

}  // namespace
}  // namespace lockstep::testing
