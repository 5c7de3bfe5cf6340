// One worker's step as train/worker.cpp takes it, its clock included, for programs that time it.
#pragma once

#include "measure/step_clock.h"
#include "strategies/registry.h"
#include "train/worker.h"

namespace lockstep {

class OneWorker {
 public:
  OneWorker(Rank& rank, const Experiment& experiment)
      : plan_(experiment.plan),
        learner_(make_torch_learner(experiment, 0,
                                    [&](std::size_t count) {
                                      weights_ = rank.peers.open_window(4 * count);
                                      gradients_ = rank.peers.open_window(4 * count);
                                      return ReplicaMemory{weights_->mine(), gradients_->mine()};
                                    },
                                    {})),
        clock_(rank.clock, 0),
        replica_(learner_->replica()),
        strategy_(make_strategy("all-reduce", {rank, 1, 0, false, all_reduce_named("ring")})) {}

  void step(std::uint64_t number) {
    const Plan::Position at = plan_.position(number);
    const Step step{number, at.epoch, plan_.samples(at.epoch, at.step)};
    clock_.start();
    learner_->open_step(number);
    compute(*learner_);
    clock_.ready();
    strategy_->update(replica_, step);
    clock_.end();
  }

 private:
  Plan plan_;
  std::unique_ptr<Window> weights_, gradients_;
  std::unique_ptr<Learner> learner_;
  StepClock clock_;
  Replica& replica_;
  std::unique_ptr<Strategy> strategy_;
};

}  // namespace lockstep
