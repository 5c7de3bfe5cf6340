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
  void open_step(std::uint64_t) override { tests_ = false; }
  void open_task_batch(std::size_t, std::uint64_t) override { tests_ = false; }
  void open_test(Slice) override { tests_ = true; }
  std::vector<Action> actions() const override {
    if (tests_) return {};
    return {{StagePass::forward}, {StagePass::backward}};
  }
  // Gradients become final from the last parameter to the first, as in most networks.
  std::vector<Passage> run(const Action& action) override {
    const std::span<const Parameter> parameters = replica_.parameters();
    if (ready_ && action.pass == StagePass::backward)
      for (auto next = parameters.rbegin(); next != parameters.rend(); ++next) ready_(next->slice);
    return {};
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
  bool tests_ = false;
  const Times times_;
};

}  // namespace

std::unique_ptr<Learner> make_hollow_learner(const Experiment& experiment, const OpenMemory& open) {
  open(experiment.hollow_parameters());
  return std::make_unique<HollowLearner>(experiment);
}

}  // namespace lockstep
