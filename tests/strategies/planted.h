// Strategies that are wrong in ways that still train, and say that they are right.
#pragma once

#include "strategies/average.h"
#include "training.h"

namespace lockstep::testing {

// All workers end with the mean of these, by their samples.
inline void average(const Crew& crew, Tag tag, Values values,
                    std::span<const std::size_t> samples) {
  scale(values, shares_of(samples)[crew.rank.rank()]);
  crew.collective.run(crew.rank.peers, tag, values.as(Op::mean));
}

// What all of them say: the mean of weights after own steps, or of gradients before.
class Planted : public Strategy, public Statement {
 public:
  Planted(const Crew& crew, bool of_weights)
      : Strategy(crew, {.statement = this}), of_weights_(of_weights) {}

  std::vector<Flow> flows(const Step& step, int rank, std::size_t count) const override {
    const auto mean = mean_factors(step.samples, crew_.workers), own = only(rank, crew_.workers);
    return {{{0, count}, of_weights_ ? own : mean, of_weights_ ? mean : own}};
  }
  std::uint64_t bytes_sent(const Step&, int rank, std::size_t count) const override {
    return average_bytes(crew_, rank, Values::hollow(count, Type::fp32));
  }

 private:
  const bool of_weights_;
};

// The published one: the average is computed and never stored.
class NeverStores final : public Planted {
 public:
  explicit NeverStores(const Crew& crew) : Planted(crew, true) {}
  void update(Replica& replica, const Step& step) override {
    replica.apply_gradients(step.number);
    const Values weights = replica.weights();
    Floats sum(weights.count());
    const Values average_of(sum.data(), sum.size(), Type::fp32);
    copy(average_of.bytes(), weights.bytes());
    average(crew_, tag_of(Purpose::weights, step), average_of, step.samples);
  }
};

class SumsOnly final : public Planted {
 public:
  explicit SumsOnly(const Crew& crew) : Planted(crew, false) {}
  void update(Replica& replica, const Step& step) override {
    crew_.collective.run(crew_.rank.peers, tag_of(Purpose::gradients, step), replica.gradients());
    replica.apply_gradients(step.number);
  }
};

// The last worker's gradient counts for nothing, and the others' for the more.
class DropsAWorker final : public Planted {
 public:
  explicit DropsAWorker(const Crew& crew) : Planted(crew, false) {}
  void update(Replica& replica, const Step& step) override {
    std::vector<std::size_t> samples(step.samples.begin(), step.samples.end());
    samples.back() = 0;
    average(crew_, tag_of(Purpose::gradients, step), replica.gradients(), samples);
    replica.apply_gradients(step.number);
  }
};

// A right strategy, except that worker 0 does not keep what came of it.
class ForgetsTheResult final : public Strategy {
 public:
  ForgetsTheResult(const Crew& crew, std::string_view spec)
      : Strategy(crew), inner_(make_strategy(spec, crew)) {
    parts_ = inner_->parts();
  }
  void begin(Replica& replica) override { inner_->begin(replica); }
  void update(Replica& replica, const Step& step) override {
    const Values weights = replica.weights();
    Floats before(weights.count());
    const Values kept(before.data(), before.size(), Type::fp32);
    copy(kept.bytes(), weights.bytes());
    inner_->update(replica, step);
    if (crew_.rank.rank() == 0) copy(weights.bytes(), kept.bytes());
  }

 private:
  const std::unique_ptr<Strategy> inner_;
};

// A right strategy, except that worker 1 does not keep what becomes of the strategy's own first
// memory: the centre, or where a round began.
class ForgetsTheCentre final : public Strategy {
 public:
  ForgetsTheCentre(const Crew& crew, std::string_view spec)
      : Strategy(crew), inner_(make_strategy(spec, crew)) {
    parts_ = inner_->parts();
  }
  void begin(Replica& replica) override { inner_->begin(replica); }
  void update(Replica& replica, const Step& step) override {
    const Values centre = inner_->memories()[0].values;
    Floats before(centre.count());
    const Values kept(before.data(), before.size(), Type::fp32);
    copy(kept.bytes(), centre.bytes());
    inner_->update(replica, step);
    if (crew_.rank.rank() == 1) copy(centre.bytes(), kept.bytes());
  }
  std::vector<Kept> memories() override { return inner_->memories(); }

 private:
  const std::unique_ptr<Strategy> inner_;
};

struct Plant {
  std::string name;
  Training training;
  int caught_in = 0;  // step
};

inline std::vector<Plant> plants() {
  Training base;
  base.workers = 3;
  base.samples = {4, 2, 6};
  std::vector<Plant> all;
  const auto add = [&](std::string name, MakeOnRank make, int servers = 0, int caught_in = 0) {
    all.push_back({std::move(name), base, caught_in});
    all.back().training.make = std::move(make);
    all.back().training.servers = servers;
  };
  add("never stores", [](const Crew& crew) { return std::make_unique<NeverStores>(crew); });
  add("sums only", [](const Crew& crew) { return std::make_unique<SumsOnly>(crew); });
  add("drops a worker", [](const Crew& crew) { return std::make_unique<DropsAWorker>(crew); });
  add(
      "forgets the pull",
      [](const Crew& crew) { return std::make_unique<ForgetsTheResult>(crew, "parameter-server"); },
      2);
  add("forgets the average so far", [](const Crew& crew) {
    return std::make_unique<ForgetsTheResult>(crew, "step-wise:form=token");
  });
  add("forgets where the round began", [](const Crew& crew) {
    return std::make_unique<ForgetsTheCentre>(crew, "slow-mo:period=1");
  });
  add(
      "forgets the centre",
      [](const Crew& crew) { return std::make_unique<ForgetsTheCentre>(crew, "sma"); }, 0,
      1);  // until then nobody has left it
  return all;
}

}  // namespace lockstep::testing
