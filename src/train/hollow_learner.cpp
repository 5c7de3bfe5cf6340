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
  double compute(std::uint64_t) override { return 0; }
  void open_task(const std::vector<std::uint32_t>&, std::size_t, int) override {}
  double compute_of_task(std::size_t, std::uint64_t) override { return 0; }
  Tally tally(Slice) override { return {}; }
  void save_model(const std::string&) override {}
  Model held_by_network() override { return {}; }
  Model read_model(const std::string&) override { return {}; }
  std::vector<Blob> state() override { return {}; }
  void restore(const Checkpoint&, int) override {}

 private:
  SizedReplica replica_;
};

}  // namespace

std::unique_ptr<Learner> make_hollow_learner(const Experiment& experiment, const OpenMemory& open) {
  open(experiment.hollow_parameters);
  return std::make_unique<HollowLearner>(experiment);
}

}  // namespace lockstep
