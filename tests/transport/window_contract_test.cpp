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

// Rounds of meetings in which every member sees what the others wrote before: int `at` of a window.
void go_round(Window& window, int rank, int rounds, std::size_t at) {
  for (int round = 1; round <= rounds; ++round) {
    reinterpret_cast<int*>(window.mine().data)[at] = rank * 1000 + round;
    EXPECT_EQ(window.meet({at, static_cast<std::uint64_t>(round), 0}), -1);
    for (const int member : window.members()) {
      EXPECT_EQ(reinterpret_cast<int*>(window.of(member).data)[at], member * 1000 + round);
      EXPECT_EQ(window.said(member)[0], at);
    }
    window.meet({});
  }
}

TEST_P(WindowContract, EveryLaneMeetsApartFromTheOthers) {
  run(3, [](Rank& r) {
    const auto window = r.peers.open_window(4096);
    if (!window->reaches_all()) return;
    const auto job = r.background.post([&](Transport& lane) {
      Window* const mine = lane.window_at(window->mine().data + 100);
      ASSERT_NE(mine, nullptr);
      EXPECT_EQ(mine->mine().data, window->mine().data);
      EXPECT_TRUE(mine->reaches_all());
      go_round(*mine, lane.rank(), 70, 7);
      EXPECT_EQ(lane.window_at(window->mine().data), mine);
    });
    go_round(*window, r.rank(), 30, 200);
    r.background.wait(job);
    // On a lane that has met here before, and on one that has not.
    r.background.wait(r.background.post([&](Transport& lane) {
      go_round(*lane.window_at(window->mine().data), lane.rank(), 3, 7);
    }));
    r.scoring->wait(r.scoring->post([&](Transport& lane) {
      go_round(*lane.window_at(window->mine().data), lane.rank(), 3, 9);
    }));
    EXPECT_EQ(r.peers.window_at(window->mine().data), window.get());
  });
}

TEST_P(WindowContract, AMemberThatIsMissingOnABackgroundLaneIsNamed) {
  run(3, [](Rank& r) {
    const auto window = r.peers.open_window(64);
    if (!window->reaches_all()) return;
    window->meet({});
    if (r.rank() == 1) return;
    r.background.wait(r.background.post([&](Transport& lane) {
      Window& mine = *lane.window_at(window->mine().data);
      const auto e = error_of([&] { mine.meet({}); });
      EXPECT_EQ(e.peer(), 1) << e.what();
    }));
  });
}

TEST_P(WindowContract, AWindowThatIsClosedIsClosedOnAllLanes) {
  run(2, [](Rank& r) {
    for (int i = 0; i < 3; ++i) {
      auto window = r.peers.open_window(64);
      if (!window->reaches_all()) return;
      const std::byte* const memory = window->mine().data;
      r.background.wait(r.background.post(
          [&](Transport& lane) { go_round(*lane.window_at(memory), lane.rank(), i + 1, 0); }));
      window.reset();
      r.background.wait(
          r.background.post([&](Transport& lane) { EXPECT_EQ(lane.window_at(memory), nullptr); }));
    }
  });
}

// A message that passes without a copy refers to memory that another lane opened.
TEST_P(WindowContract, LargeMessagesOutOfWindowsArriveOnABackgroundLane) {
  const std::size_t n = 300'000;
  run(2, [&](Rank& r) {
    const auto window = r.peers.open_window(n * sizeof(float));
    auto* mine = reinterpret_cast<float*>(window->mine().data);
    for (std::size_t i = 0; i < n; ++i) mine[i] = static_cast<float>(i + r.rank());
    r.background.wait(r.background.post([&](Transport& lane) {
      std::vector<float> got(n);
      Pending sent = lane.send(1 - lane.rank(), kTag, window->mine());
      lane.wait(lane.recv(1 - lane.rank(), kTag, raw(got)));
      lane.wait(sent);
      for (std::size_t i = 0; i < n; ++i)
        ASSERT_EQ(got[i], static_cast<float>(i + 1 - lane.rank()));
    }));
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, WindowContract, ::testing::ValuesIn(contract_worlds()),
                         world_name);

}  // namespace
}  // namespace lockstep::testing
