// Sizes alone: every buffer has a length and no data, and computing takes the time it is said to.
#include "core/options.h"
#include "replica/sized_replica.h"
#include "train/learner.h"

namespace lockstep {
namespace {

class HollowLearner final : public Learner {
 public:
  explicit HollowLearner(const Experiment& experiment)
      : replica_(experiment.parameters, Options::name_in(experiment.config.optimizer) == "lars") {}

  Replica& replica() override { return replica_; }
  int open_step(std::uint64_t) override { return 1; }
  int open_task_batch(std::size_t, std::uint64_t) override { return 1; }
  int open_test(Slice) override { return 0; }
  Values forward(int) override { return kNoValues; }
  // Gradients become final from the last parameter to the first, as in most networks.
  Values backward(int) override {
    const std::span<const Parameter> parameters = replica_.parameters();
    if (ready_)
      for (auto next = parameters.rbegin(); next != parameters.rend(); ++next) ready_(next->slice);
    return kNoValues;
  }
  double end_step() override { return 0; }
  Tally end_test() override { return {}; }
  void on_slice_ready(std::function<void(Slice)> ready) override { ready_ = std::move(ready); }
  const Times& last() const override { return times_; }
  void open_task(const std::vector<std::uint32_t>&, std::size_t, int) override {}
  void save_model(const std::string&) override {}
  Model held_by_network() override { return {}; }
  Model read_model(const std::string&) override { return {}; }
  std::vector<Blob> state() override { return {}; }
  void restore(const Checkpoint&, int) override {}

 private:
  SizedReplica replica_;
  std::function<void(Slice)> ready_;
  const Times times_;
};

}  // namespace

std::unique_ptr<Learner> make_hollow_learner(const Experiment& experiment, const OpenMemory& open) {
  open(experiment.hollow_parameters());
  return std::make_unique<HollowLearner>(experiment);
}

}  // namespace lockstep
