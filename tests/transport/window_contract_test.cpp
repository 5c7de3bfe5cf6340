// Memory that peers on one host see.
#include "transport/contract.h"

namespace lockstep::testing {
namespace {

class WindowContract : public TransportContract {};

TEST_P(WindowContract, WindowsAreSeenByPeersAfterAMeeting) {
  run(4, [](Rank& r) {
    const auto window = r.peers.open_window(1 << 20);
    if (!window->reaches_all()) return;  // ranks on different hosts
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(window->mine().data) % 64, 0u);
    auto* mine = reinterpret_cast<int*>(window->mine().data);
    EXPECT_EQ(mine[1000], 0);
    for (int round = 1; round < 50; ++round) {
      mine[1000] = r.rank() * 100 + round;
      EXPECT_EQ(window->meet({1, 2, 3}), -1);
      for (int p = 0; p < 4; ++p)
        EXPECT_EQ(reinterpret_cast<int*>(window->of(p).data)[1000], p * 100 + round);
      window->meet({});
    }
    EXPECT_EQ(r.peers.window_at(mine + 5), window.get());
    int elsewhere = 0;
    EXPECT_EQ(r.peers.window_at(&elsewhere), nullptr);
  });
}

TEST_P(WindowContract, AMeetingTellsWhoCameForSomethingElse) {
  run(3, [](Rank& r) {
    const auto window = r.peers.open_window(64);
    if (!window->reaches_all()) return;
    const std::uint64_t mine = r.rank() == 2 ? 8 : 4;
    const int odd = window->meet({mine, 0, 0});
    EXPECT_EQ(odd, r.rank() == 2 ? 0 : 2);
    EXPECT_EQ(window->said(2)[0], 8u);
    EXPECT_EQ(window->said(1)[0], 4u);
  });
}

TEST_P(WindowContract, WindowsOfSomeRanks) {
  run(5, [](Rank& r) {
    const std::vector<int> odd{1, 3};
    if (r.rank() % 2 == 0) return;
    const auto window = r.peers.open_window(4096, odd);
    EXPECT_THAT(window->members(), ::testing::ElementsAre(1, 3));
    if (!window->reaches_all()) return;
    window->mine().data[0] = static_cast<std::byte>(r.rank());
    window->meet({});
    EXPECT_EQ(window->of(4 - r.rank()).data[0], static_cast<std::byte>(4 - r.rank()));
    window->meet({});
  });
}

TEST_P(WindowContract, AMissingMemberOfAMeetingIsNamed) {
  run(3, [](Rank& r) {
    const auto window = r.peers.open_window(64);
    if (!window->reaches_all() || r.rank() == 1) return;
    const auto e = error_of([&] {
      for (int i = 0; i < 2; ++i) window->meet({});
    });
    EXPECT_EQ(e.peer(), 1) << e.what();
  });
}

// They may pass without a copy; nobody may notice.
TEST_P(WindowContract, LargeMessagesOutOfWindowsArrive) {
  const std::size_t n = 300'000;
  run(3, [&](Rank& r) {
    auto window = r.peers.open_window(n * sizeof(float));
    auto* mine = reinterpret_cast<float*>(window->mine().data);
    int go = 1;
    if (r.rank() == 0) {
      for (std::size_t i = 0; i < n; ++i) mine[i] = static_cast<float>(i);
      Pending one = r.peers.send(1, kTag, window->mine());
      r.peers.wait(r.peers.send(2, kOther, bytes_of(go)));  // not held up by what nobody takes yet
      Pending two = r.peers.send(2, kTag, window->mine().part(4, (n - 1) * sizeof(float)));
      r.peers.wait(two);
      r.peers.wait(one);
      for (std::size_t i = 0; i < n; ++i) mine[i] = -1;
    } else if (r.rank() == 1) {
      std::fill_n(mine, n, 1.0f);
      const Combine add = Values(mine, n, Type::fp32).combine();
      EXPECT_EQ(r.peers.wait(r.peers.recv(0, kTag, window->mine(), add)).bytes, n * sizeof(float));
      for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(mine[i], static_cast<float>(i) + 1);
    } else {
      window.reset();
      std::vector<float> got(n);
      r.peers.wait(r.peers.recv(0, kOther, bytes_of(go)));
      r.peers.wait(r.peers.recv(0, kTag, raw(got)));
      for (std::size_t i = 1; i < n; ++i) ASSERT_EQ(got[i - 1], static_cast<float>(i));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, WindowContract, ::testing::ValuesIn(contract_worlds()),
                         world_name);

}  // namespace
}  // namespace lockstep::testing
