// The timing loop of pushes and pulls finds what servers get wrong.
#include <gtest/gtest.h>

#include <functional>

#include "bench/participant.h"
#include "bench/pattern.h"

namespace lockstep::bench {
namespace {

constexpr int kServers = 3;
constexpr std::size_t kCount = 1000;

// What a worker has pulled in a round, to be spoilt.
using Spoil = std::function<void(std::vector<float>& pulled, int round)>;

// Worker 1 of several, and all servers in one: all pushes of a round are in when it pulls.
constexpr int kMe = 1;
class Together : public PushPull {
 public:
  Together(int workers, bool averages, const Spoil& spoil)
      : workers_(workers), averages_(averages), spoil_(spoil) {}
  bool serves() const override { return false; }
  void serve(int) override {}
  Values pushed() override { return {pushed_.data(), kCount, Type::fp32}; }
  Values pulled() override { return {pulled_.data(), kCount, Type::fp32}; }
  void barrier() override {}
  void push_and_pull(int round) override {
    const float mine = averages_ ? static_cast<float>(workers_) : 1;
    for (std::size_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(pushed_[i], mine * static_cast<float>(element(contribution(kMe), i)));
      held_[i] += static_cast<float>(element(sum_of_contributions(workers_), i));
    }
    pulled_ = held_;
    spoil_(pulled_, round);
  }
  bool averages() const override { return averages_; }
  void rest() override { pulled_ = held_; }

 private:
  const int workers_;
  const bool averages_;
  const Spoil& spoil_;
  std::vector<float> pushed_ = std::vector<float>(kCount), pulled_ = pushed_, held_ = pushed_;
};

class Worker : public Participant {
 public:
  Worker(int workers, bool averages, Spoil spoil)
      : workers_(workers), averages_(averages), spoil_(std::move(spoil)) {}
  int rank() const override { return kMe; }
  int size() const override { return workers_ + kServers; }
  double now() const override { return now_ += 1e-6; }
  Bytes buffer(std::size_t) override { return {}; }
  void barrier() override {}
  void all_reduce(const Work&, Values) override {}
  void send(int, Bytes, int) override {}
  void recv(int, Bytes, int) override {}
  std::unique_ptr<PushPull> push_pull(const Work&) override {
    return std::make_unique<Together>(workers_, averages_, spoil_);
  }
  std::string chosen(const Work&, Values) override { return ""; }

 private:
  const int workers_;
  const bool averages_;
  const Spoil spoil_;
  mutable double now_ = 0;
};

Result measured(int workers, bool averages, Spoil spoil) {
  Worker me(workers, averages, std::move(spoil));
  return measure({Operation::pushpull, "asp", Type::fp32, 4 * kCount, 1, 3, kServers}, me);
}

// Server 1 has so many times that worker's push more than it should.
Spoil further(int times, int worker) {
  return [=](std::vector<float>& pulled, int) {
    const Slice shard = chunk(kCount, kServers, 1);
    for (std::size_t i = shard.begin; i < shard.end(); ++i)
      pulled[i] += static_cast<float>(times * element(contribution(worker), i));
  };
}
Spoil both(Spoil first, Spoil second) {
  return [=](std::vector<float>& pulled, int round) {
    first(pulled, round);
    second(pulled, round);
  };
}

TEST(PushPull, RightNumbersAreRightAndEachTimedRoundHasItsTime) {
  for (const bool averages : {false, true}) {
    const Result result = measured(4, averages, [](auto&, int) {});
    EXPECT_EQ(result.wrong, 0u);
    EXPECT_EQ(result.times_us.size(), 3u);
  }
}

TEST(PushPull, AnElementThatIsWrongInOneRoundIsFound) {
  const auto second = [](std::vector<float>& pulled, int round) {
    if (round == 2) pulled[777] += 1;
  };
  EXPECT_EQ(measured(2, false, second).wrong, 1u);
}

TEST(PushPull, AServerMayLackOthersPushesOfThisRoundUnlessItAverages) {
  const std::size_t of_a_server = 4 * chunk(kCount, kServers, 1).count;
  EXPECT_EQ(measured(4, false, further(-1, 0)).wrong, 0u);
  EXPECT_EQ(measured(4, false, both(further(-1, 3), further(-1, 0))).wrong, 0u);
  EXPECT_EQ(measured(4, true, further(-1, 0)).wrong, of_a_server);
}

TEST(PushPull, OneMoreOneOfAnotherAndTheOwnMissingAreFound) {
  const std::size_t of_a_server = 4 * chunk(kCount, kServers, 1).count;
  EXPECT_EQ(measured(4, false, further(1, 0)).wrong, of_a_server);
  EXPECT_EQ(measured(2, false, both(further(-1, 0), further(1, kMe))).wrong, of_a_server);
  EXPECT_EQ(measured(2, false, further(-1, kMe)).wrong, of_a_server);
}

}  // namespace
}  // namespace lockstep::bench
