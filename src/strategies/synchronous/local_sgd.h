// Local SGD, and Local SGD with an outer optimiser. In a round every worker takes `period` steps
// alone; then the weights are averaged, by the samples that each has had in the round. The
// optimiser's state stays each worker's own.
#pragma once

#include <optional>
#include <string>

#include "collectives/scratch.h"
#include "strategies/mean.h"

namespace lockstep {

class LocalSgd : public Strategy, public Statement, public Measured {
 public:
  // Before that epoch a round is one step. `name`: of the strategy, for errors.
  LocalSgd(const Crew&, std::string name, std::uint64_t period, int from_epoch = 0);

  void begin(Replica&) override;
  void update(Replica&, const Step&) override;
  void read_model(Replica&, Values model) override;
  Flow flow_of_model(int rank, std::size_t count) const override;
  std::vector<Flow> flows(const Step&, int rank, std::size_t count) const override;
  std::vector<Flow> flows_of_memory(std::size_t which, const Step&, int rank,
                                    std::size_t count) const override;
  bool averages_by_samples() const override { return true; }
  std::uint64_t bytes_sent(const Step&, int rank, std::size_t count) const override;
  const Figures& figures() override { return mean_->figures(); }
  std::vector<Kept> memories() override { return mean_->memories(); }
  std::string state() const override;
  void restore(const std::string&) override;

 protected:
  bool averages(const Step&) const;
  // Samples of each worker since the last average, those of this step among them.
  std::vector<std::size_t> since_average(const Step&) const;

  const std::unique_ptr<Mean> mean_;

 private:
  std::vector<double> shares_in_model() const;

  const std::string name_;
  const std::uint64_t period_;
  const int from_epoch_;
  // As the last step left them: kept until the next, for flows() of the step just taken.
  std::uint64_t next_ = 0;
  bool averaged_ = true;
  std::vector<std::size_t> since_;
};

// The way from a round's start to the mean is what the outer optimiser steps with. All workers
// compute the same outer step and begin the next round with the same weights. Bytes are those of
// Local SGD.
class OuterLoop : public LocalSgd {
 public:
  // The name, for errors; those of the memories, for checkpoints.
  struct Names {
    std::string strategy, start, momentum;
  };
  OuterLoop(const Crew&, std::uint64_t period, Names);

  void begin(Replica&) override;
  void update(Replica&, const Step&) override;
  std::vector<Flow> flows(const Step&, int rank, std::size_t count) const override;
  std::vector<Flow> flows_of_memory(std::size_t which, const Step&, int rank,
                                    std::size_t count) const override;
  std::vector<Kept> memories() override;

 protected:
  // One outer step. `mean` comes with the workers' mean, and is scratch; `start`, where the round
  // began, becomes where the next one does. `gamma` is the inner learning rate of the round.
  virtual void outer_step(Values mean, Values start, Values momentum, double gamma) const = 0;
  // What outer_step() says of start and momentum, as factors of what it came with.
  struct Factors {
    double mean, start, momentum;
  };
  virtual Factors of_start(double gamma) const = 0;
  virtual Factors of_momentum(double gamma) const = 0;

 private:
  static constexpr std::size_t kOwnMemories = 2;  // start and momentum; then those of the mean

  Flow flow_of(const Factors&, const Step&, std::size_t count) const;

  const Names names_;
  const Replica* replica_ = nullptr;  // for the learning rate
  std::optional<Scratch> start_, momentum_;
};

}  // namespace lockstep
