// Notes and weights between a manager and its workers, in every world.
#include "strategies/round_mail.h"

#include <gmock/gmock.h>

#include "training.h"

namespace lockstep::testing {
namespace {

using Event = ManagerMail::Event;
using Kind = RoundNote::Kind;

constexpr int kWorkers = 3;
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
};
INSTANTIATE_TEST_SUITE_P(Worlds, RoundMail, ::testing::ValuesIn(strategy_worlds()),
                         [](const auto& info) { return info.param.name; });

Values values(Floats& floats) { return {floats.data(), floats.size(), Type::fp32}; }
RoundModel model(Floats& weights) { return {values(weights)}; }
const RoundModel kHollow{Values::hollow(kCount, Type::fp32)};

TEST_P(RoundMail, WeightsGoDownAndUpAndBytesAreCounted) {
  std::vector<Traffic> traffic(kWorkers + 1);
  const auto counted = [&](Rank& outer, const auto& what) {
    Ledger ledger(outer.size());
    Metered metered(outer.peers, ledger);
    what(metered);
    traffic[outer.rank()] = total_of(ledger, Purpose::weights);
  };
  run(
      [&](Rank& rank) {
        counted(rank, [&](Transport& peers) {
          WorkerMail mail(peers, kWorkers);
          mail.await_word();
          Floats weights(kCount);
          const RoundNote answer = mail.ask(4, rank.rank(), model(weights));
          EXPECT_EQ(answer.kind, Kind::granted);
          EXPECT_EQ(answer.proof.weights.square, 1.5);
          EXPECT_EQ(weights, Floats(kCount, 7));
          for (float& w : weights) w += static_cast<float>(rank.rank());
          mail.hand_in(4, rank.rank(), {{{}, 2.5}, {}}, model(weights));
          mail.await_word();
        });
      },
      [&](Rank& rank) {
        counted(rank, [&](Transport& peers) {
          ManagerMail mail(peers, kWorkers);
          Floats seven(kCount, 7);
          auto copy = std::make_shared<const ModelCopy>(model(seven));
          std::ranges::fill(seven, 0.f);  // the copy is its own
          std::vector<Floats> results(kWorkers, Floats(kCount));
          for (int w = 0; w < kWorkers; ++w) mail.word(w, {});
          for (int came = 0; came < kWorkers;) {
            const Event event = next(mail, rank);
            ASSERT_NE(event.kind, Event::Kind::gone);
            if (event.kind == Event::Kind::model) {
              ++came;
            } else if (event.note.kind == Kind::wants) {
              EXPECT_EQ(event.note.round, 4u);
              mail.answer(event.worker, {Kind::granted, event.note.task, 4, {{{}, 1.5}, {}}}, copy);
            } else {
              EXPECT_EQ(event.note.proof.weights.square, 2.5);
              mail.take(event.worker, model(results[event.note.task]));
            }
          }
          for (int w = 0; w < kWorkers; ++w)
            EXPECT_EQ(results[w], Floats(kCount, 7 + static_cast<float>(w)));
          for (int w = 0; w < kWorkers; ++w) mail.word(w, {});
        });
      });
  for (int w = 0; w < kWorkers; ++w) EXPECT_EQ(traffic[w].bytes_sent, 4 * kCount);
  EXPECT_EQ(traffic[kWorkers].bytes_sent, 4 * kCount * kWorkers);
}

TEST_P(RoundMail, StatisticsTravelAlongAndWordsTell) {
  run(
      [](Rank& rank) {
        WorkerMail mail(rank.peers, kWorkers);
        Floats weights(10), statistics(3);
        const RoundModel all{values(weights), values(statistics)};
        EXPECT_EQ(mail.ask(0, 0, all).kind, Kind::granted);
        EXPECT_EQ(statistics, Floats(3, 2));
        statistics[1] = static_cast<float>(rank.rank());
        mail.hand_in(0, 0, {}, all);
        RoundWord word = mail.await_word();
        EXPECT_EQ(word.round, 6u);
        EXPECT_EQ(word.aside_s, 2.5);
        while (!word.over) word = mail.look_for_word().value_or(word);
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
          if (event.kind == Event::Kind::model)
            ++came;
          else if (event.note.kind == Kind::wants)
            mail.answer(from, {Kind::granted, 0, 0, {}}, copy);
          else
            mail.take(from, {values(w[from]), values(s[from])});
        }
        for (int from = 0; from < kWorkers; ++from) {
          EXPECT_EQ(s[from], (Floats{2, static_cast<float>(from), 2}));
          mail.word(from, {6, 2.5, 0});
          mail.word(from, {7, 0, 1});
        }
      });
}

TEST_P(RoundMail, ARefusalBringsNoWeights) {
  run(
      [](Rank& rank) {
        WorkerMail mail(rank.peers, kWorkers);
        Floats weights(10, 3);
        EXPECT_EQ(mail.ask(1, 0, model(weights)).kind, Kind::refused);
        EXPECT_EQ(weights, Floats(10, 3));
        mail.await_word();
        mail.hand_in(2, 5, {}, {});
        mail.await_word();
      },
      [](Rank& rank) {
        ManagerMail mail(rank.peers, kWorkers);
        const auto word_to_all = [&] {
          for (int w = 0; w < kWorkers; ++w) mail.word(w, {});
        };
        int wanted = 0, handed_in = 0;
        while (handed_in < kWorkers) {
          const Event event = next(mail, rank);
          ASSERT_EQ(event.kind, Event::Kind::note);
          if (event.note.kind == Kind::hands_in) {
            EXPECT_EQ(event.note.task, 5);
            ++handed_in;
            continue;
          }
          mail.answer(event.worker, {Kind::refused, 0, 1, {}}, nullptr);
          if (++wanted == kWorkers) word_to_all();
        }
        word_to_all();
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
        mail.ask(0, 0, kHollow);
        mail.hand_in(0, 0, {}, kHollow);
      },
      [](Rank& rank) {
        ManagerMail mail(rank.peers, kWorkers);
        const auto copy = std::make_shared<const ModelCopy>(kHollow);
        EXPECT_TRUE(copy->view().weights.is_hollow());
        for (int came = 0; came < kWorkers;) {
          const Event event = mail.next(rank.peers.patience()).value();
          if (event.kind == Event::Kind::model)
            ++came;
          else if (event.note.kind == Kind::wants)
            mail.answer(event.worker, {Kind::granted, 0, 0, {}}, copy);
          else
            mail.take(event.worker, kHollow);
        }
      });
}

TEST_P(RoundMail, WhoIsGoneIsToldOnceAndHoldsNobodyUp) {
  run(
      [](Rank& rank) {
        WorkerMail mail(rank.peers, kWorkers);
        if (rank.rank() == 1) return;
        Floats weights(kCount);
        mail.ask(0, rank.rank(), model(weights));
        if (rank.rank() == 2) return;
        mail.await_word();
        mail.hand_in(0, 0, {}, {});
      },
      [](Rank& rank) {
        ManagerMail mail(rank.peers, kWorkers);
        Floats seven(kCount, 7);
        const auto copy = std::make_shared<const ModelCopy>(model(seven));
        std::vector<int> gone;
        for (bool over = false; !over;) {
          const Event event = next(mail, rank);
          if (event.kind == Event::Kind::gone) {
            gone.push_back(event.worker);
            mail.word(event.worker, {});  // to nobody
            mail.answer(event.worker, {}, copy);
            mail.take(event.worker, model(seven));
            if (gone.size() == 2) mail.word(0, {});
          } else if (event.note.kind == Kind::wants) {
            mail.answer(event.worker, {Kind::granted, 0, 0, {}}, copy);
          } else {
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
        mail.await_word();
        mail.hand_in(0, 0, {}, {});
        mail.await_word();
      },
      [](Rank& rank) {
        ManagerMail mail(rank.peers, kWorkers);
        EXPECT_FALSE(mail.next({rank.peers.now() + 0.01}));
        for (int w = 0; w < kWorkers; ++w) mail.word(w, {});
        for (int w = 0; w < kWorkers; ++w) EXPECT_EQ(next(mail, rank).note.kind, Kind::hands_in);
        for (int w = 0; w < kWorkers; ++w) mail.word(w, {});
      });
}

}  // namespace
}  // namespace lockstep::testing
