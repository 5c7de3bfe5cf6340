// Notes and weights between a manager and its workers, in every world.
#include "strategies/rounds/round_mail.h"

#include <gmock/gmock.h>

#include "strategies/training.h"

namespace lockstep::testing {
namespace {

using Event = ManagerMail::Event;
using Kind = RoundNote::Kind;

constexpr int kWorkers = 3;
const RoundNote kGranted{.kind = Kind::granted}, kHandsIn{.kind = Kind::hands_in},
    kOver{.kind = Kind::over};
constexpr std::size_t kCount = 100'003;

class RoundMail : public ::testing::TestWithParam<World> {
 protected:
  // Workers 0 to 2 and a manager.
  void run(const Body& worker, const Body& manager) {
    GetParam().run(kWorkers + 1,
                   [&](Rank& rank) { rank.rank() == kWorkers ? manager(rank) : worker(rank); }, {});
  }
  static Event next(ManagerMail& mail, Rank& rank) {
    const auto event = mail.next(rank.peers.patience());
    if (!event) throw InternalError("nothing came");
    return *event;
  }
  // Until all workers have left, having heard what they were told.
  static void see_off(ManagerMail& mail, Rank& rank) {
    while (mail.present() > 0) EXPECT_EQ(next(mail, rank).kind, Event::Kind::gone);
  }
};
INSTANTIATE_TEST_SUITE_P(Worlds, RoundMail, ::testing::ValuesIn(strategy_worlds()),
                         [](const auto& info) { return info.param.name; });

Values values(Floats& floats) { return {floats.data(), floats.size(), Type::fp32}; }
RoundModel model(Floats& weights) { return {values(weights)}; }
const RoundModel kHollow{Values::hollow(kCount, Type::fp32)};

// By what a rank says over the transport that it is given.
Traffic weights_moved(Rank& rank, const std::function<void(Transport&)>& say) {
  Ledger ledger(rank.size());
  Metered metered(rank.peers, ledger);
  say(metered);
  return total_of(ledger, Purpose::weights);
}

TEST_P(RoundMail, WeightsGoDownAndUpAndBytesAreCounted) {
  std::vector<Traffic> traffic(kWorkers + 1);
  run(
      [&](Rank& rank) {
        traffic[rank.rank()] = weights_moved(rank, [&](Transport& peers) {
          WorkerMail mail(peers, kWorkers);
          Floats weights(kCount);
          const RoundNote task = mail.want();
          EXPECT_EQ(task.kind, Kind::granted);
          EXPECT_EQ(task.task, rank.rank());
          EXPECT_EQ(task.round, 4u);
          EXPECT_EQ(task.aside_s, 2.5);
          EXPECT_EQ(task.proof.weights.square, 1.5);
          mail.receive(model(weights));
          EXPECT_EQ(weights, Floats(kCount, 7));
          for (float& w : weights) w += static_cast<float>(rank.rank());
          EXPECT_FALSE(mail.is_refused());
          const RoundProof proof{{{}, 3.5}, {}};
          EXPECT_TRUE(mail.hand_in({Kind::hands_in, task.task, task.round, proof, 0, 0.5, 60},
                                   model(weights)));
          EXPECT_EQ(mail.want().kind, Kind::over);
        });
      },
      [&](Rank& rank) {
        traffic[rank.rank()] = weights_moved(rank, [&](Transport& peers) {
          ManagerMail mail(peers, kWorkers);
          Floats seven(kCount, 7);
          auto copy = std::make_shared<const ModelCopy>(model(seven));
          std::ranges::fill(seven, 0.f);  // the copy is its own
          std::vector<Floats> results(kWorkers, Floats(kCount));
          std::vector<bool> handed_in(kWorkers), came(kWorkers);
          while (mail.present() > 0) {
            const Event event = next(mail, rank);
            const RoundNote& note = event.note;
            if (event.kind == Event::Kind::gone) {
              EXPECT_TRUE(came[event.worker]);
            } else if (event.kind == Event::Kind::model) {
              came[event.worker] = true;
            } else if (note.kind == Kind::wants && handed_in[event.worker]) {
              mail.answer(event.worker, kOver);
            } else if (note.kind == Kind::wants) {
              const RoundProof proof{{{}, 1.5}, {}};
              mail.answer(event.worker, {Kind::granted, event.worker, 4, proof, 2.5}, copy);
            } else {
              handed_in[event.worker] = true;
              EXPECT_EQ(note.round, 4u);
              EXPECT_EQ(note.loss, 0.5);
              EXPECT_EQ(note.samples, 60u);
              EXPECT_EQ(note.proof.weights.square, 3.5);
              mail.answer(event.worker, kGranted);
              mail.take(event.worker, model(results[note.task]));
            }
          }
          for (int w = 0; w < kWorkers; ++w)
            EXPECT_EQ(results[w], Floats(kCount, 7 + static_cast<float>(w)));
        });
      });
  for (int w = 0; w < kWorkers; ++w) EXPECT_EQ(traffic[w].bytes_sent, 4 * kCount);
  EXPECT_EQ(traffic[kWorkers].bytes_sent, 4 * kCount * kWorkers);
}

TEST_P(RoundMail, StatisticsTravelAlong) {
  run(
      [](Rank& rank) {
        WorkerMail mail(rank.peers, kWorkers);
        Floats weights(10), statistics(3);
        const RoundModel all{values(weights), values(statistics)};
        EXPECT_EQ(mail.want().kind, Kind::granted);
        mail.receive(all);
        EXPECT_EQ(statistics, Floats(3, 2));
        statistics[1] = static_cast<float>(rank.rank());
        EXPECT_TRUE(mail.hand_in(kHandsIn, all));
      },
      [](Rank& rank) {
        ManagerMail mail(rank.peers, kWorkers);
        Floats weights(10, 1), statistics(3, 2);
        const auto copy =
            std::make_shared<const ModelCopy>(RoundModel{values(weights), values(statistics)});
        std::vector<Floats> w(kWorkers, Floats(10)), s(kWorkers, Floats(3));
        for (int came = 0; came < kWorkers;) {
          const Event event = next(mail, rank);
          const int from = event.worker;
          if (event.kind == Event::Kind::model) {
            ++came;
          } else if (event.kind == Event::Kind::note && event.note.kind == Kind::wants) {
            mail.answer(from, kGranted, copy);
          } else if (event.kind == Event::Kind::note) {
            mail.answer(from, kGranted);
            mail.take(from, {values(w[from]), values(s[from])});
          }
        }
        for (int from = 0; from < kWorkers; ++from)
          EXPECT_EQ(s[from], (Floats{2, static_cast<float>(from), 2}));
        see_off(mail, rank);
      });
}

TEST_P(RoundMail, ARefusedResultBringsNoWeights) {
  run(
      [](Rank& rank) {
        WorkerMail mail(rank.peers, kWorkers);
        Floats weights(10, 3);
        EXPECT_FALSE(mail.hand_in(kHandsIn, model(weights)));
        EXPECT_EQ(mail.want().kind, Kind::over);
      },
      [](Rank& rank) {
        ManagerMail mail(rank.peers, kWorkers);
        while (mail.present() > 0) {
          const Event event = next(mail, rank);
          EXPECT_NE(event.kind, Event::Kind::model);
          const bool wants = event.note.kind == Kind::wants;
          mail.answer(event.worker, wants ? kOver : RoundNote{.kind = Kind::refused});
        }
      });
}

// The manager says that a round is over while workers train, hand in, or ask for more already.
TEST_P(RoundMail, ARefusalMayCrossWhatTheWorkerSays) {
  run(
      [](Rank& rank) {
        WorkerMail mail(rank.peers, kWorkers);
        EXPECT_EQ(mail.want().task, rank.rank());
        if (rank.rank() == 0)
          while (!mail.is_refused()) continue;
        if (rank.rank() == 1) {
          EXPECT_FALSE(mail.hand_in(kHandsIn, {}));
        }
        const RoundNote next = mail.want();
        EXPECT_EQ(next.kind, Kind::granted);
        EXPECT_EQ(next.task, 10 + rank.rank());
        EXPECT_EQ(mail.want().kind, Kind::over);
      },
      [](Rank& rank) {
        ManagerMail mail(rank.peers, kWorkers);
        std::vector<int> asked(kWorkers);
        while (mail.present() > 0) {
          const Event event = next(mail, rank);
          const int from = event.worker;
          if (event.kind == Event::Kind::gone) continue;
          if (event.note.kind == Kind::hands_in) continue;  // it was refused already
          if (++asked[from] == 3) {
            mail.answer(from, kOver);
            continue;
          }
          const int task = from + 10 * (asked[from] - 1);
          mail.answer(from, {.kind = Kind::granted, .task = task});
          if (asked[from] == 1) mail.answer(from, {.kind = Kind::refused});
        }
      });
}

TEST(RoundMailInSimulation, HollowWeightsTravelToo) {
  const auto run = [](const Body& worker, const Body& manager) {
    run_simulated_fabric(
        kWorkers + 1, [&](Rank& rank) { rank.rank() == kWorkers ? manager(rank) : worker(rank); },
        {});
  };
  run(
      [](Rank& rank) {
        WorkerMail mail(rank.peers, kWorkers);
        mail.want();
        mail.receive(kHollow);
        mail.hand_in(kHandsIn, kHollow);
      },
      [](Rank& rank) {
        ManagerMail mail(rank.peers, kWorkers);
        const auto copy = std::make_shared<const ModelCopy>(kHollow);
        EXPECT_TRUE(copy->view().weights.is_hollow());
        for (int came = 0; came < kWorkers;) {
          const Event event = mail.next(rank.peers.patience()).value();
          if (event.kind == Event::Kind::model) {
            ++came;
          } else if (event.kind == Event::Kind::note && event.note.kind == Kind::wants) {
            mail.answer(event.worker, kGranted, copy);
          } else if (event.kind == Event::Kind::note) {
            mail.answer(event.worker, kGranted);
            mail.take(event.worker, kHollow);
          }
        }
      });
}

TEST_P(RoundMail, WhoIsGoneIsToldOnceAndHoldsNobodyUp) {
  run(
      [](Rank& rank) {
        WorkerMail mail(rank.peers, kWorkers);
        if (rank.rank() == 1) return;
        Floats weights(kCount);
        mail.want();
        mail.receive(model(weights));
        if (rank.rank() == 2) return;
        EXPECT_TRUE(mail.hand_in(kHandsIn, {}));
      },
      [](Rank& rank) {
        ManagerMail mail(rank.peers, kWorkers);
        Floats seven(kCount, 7);
        const auto copy = std::make_shared<const ModelCopy>(model(seven));
        std::vector<int> gone;
        for (bool handed_in = false, over = false; !over;) {
          const Event event = next(mail, rank);
          if (event.kind == Event::Kind::gone) {
            gone.push_back(event.worker);
            mail.answer(event.worker, kGranted, copy);  // to nobody
            mail.take(event.worker, model(seven));
          } else if (event.note.kind == Kind::wants) {
            mail.answer(event.worker, kGranted, copy);
          } else {
            handed_in = true;
          }
          if (handed_in && gone.size() == 2) {
            mail.answer(0, kGranted);
            over = true;
          }
        }
        EXPECT_THAT(gone, ::testing::UnorderedElementsAre(1, 2));
        EXPECT_FALSE(mail.has(1));
        const Event last = next(mail, rank);
        EXPECT_EQ(last.kind, Event::Kind::gone);
        EXPECT_EQ(last.worker, 0);
        EXPECT_EQ(mail.present(), 0);
        EXPECT_FALSE(mail.next(rank.peers.patience())) << "nobody is left";
      });
}

TEST_P(RoundMail, ADeadlineIsNoNews) {
  run(
      [](Rank& rank) {
        WorkerMail mail(rank.peers, kWorkers);
        EXPECT_EQ(mail.want().kind, Kind::granted);
        EXPECT_TRUE(mail.hand_in(kHandsIn, {}));
      },
      [](Rank& rank) {
        ManagerMail mail(rank.peers, kWorkers);
        for (int w = 0; w < kWorkers; ++w) EXPECT_EQ(next(mail, rank).note.kind, Kind::wants);
        EXPECT_FALSE(mail.next({rank.peers.now() + 0.01}));
        for (int w = 0; w < kWorkers; ++w) mail.answer(w, kGranted);
        for (int w = 0; w < kWorkers; ++w) EXPECT_EQ(next(mail, rank).note.kind, Kind::hands_in);
        for (int w = 0; w < kWorkers; ++w) mail.answer(w, kGranted);
        see_off(mail, rank);
      });
}

}  // namespace
}  // namespace lockstep::testing
