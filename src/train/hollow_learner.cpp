// Sizes alone: every buffer has a length and no data, and computing takes the time it is said to.
#include "core/options.h"
#include "replica/sized_replica.h"
#include "train/learner.h"

namespace lockstep {
namespace {

// What a learner without numbers says where one with numbers computes, scores and saves.
class Sizes : public Learner {
 public:
  Sizes(const Experiment& experiment, std::vector<Parameter> parameters)
      : replica_(std::move(parameters), Options::name_in(experiment.config.optimizer) == "lars") {}

  Replica& replica() final { return replica_; }
  double end_step() final { return 0; }
  Tally end_test() final { return {}; }
  void on_slice_ready(std::function<void(Slice)> ready) final { ready_ = std::move(ready); }
  const Times& last() const final { return times_; }
  void open_task(const std::vector<std::uint32_t>&, std::size_t, int) final {}
  void save_model(const std::string&) final {}
  Model held_by_network() final { return {}; }
  Model read_model(const std::string&) final { return {}; }
  std::vector<Blob> state() final { return {}; }
  void restore(const Checkpoint&, int) final {}

 protected:
  // Gradients become final from the last parameter to the first, as in most networks.
  void tell_all_ready() {
    const std::span<const Parameter> parameters = replica_.parameters();
    if (ready_)
      for (auto next = parameters.rbegin(); next != parameters.rend(); ++next) ready_(next->slice);
  }

 private:
  SizedReplica replica_;
  std::function<void(Slice)> ready_;
  const Times times_;
};

class HollowLearner final : public Sizes {
 public:
  explicit HollowLearner(const Experiment& experiment) : Sizes(experiment, experiment.parameters) {}

  void open_step(std::uint64_t) override { tests_ = false; }
  void open_task_batch(std::size_t, std::uint64_t) override { tests_ = false; }
  void open_test(Slice) override { tests_ = true; }
  std::vector<Action> actions() const override {
    if (tests_) return {};
    return {{StagePass::forward}, {StagePass::backward}};
  }
  std::vector<Passage> run(const Action& action) override {
    if (action.pass == StagePass::backward) tell_all_ready();
    return {};
  }

 private:
  bool tests_ = false;
};

// The stages of a worker of a pipeline. What passes between workers has a size and no numbers.
class HollowStages final : public Sizes {
 public:
  HollowStages(const Experiment& experiment, int rank, std::vector<Parameter> parameters)
      : Sizes(experiment, std::move(parameters)),
        pipelines_(*experiment.pipelines),
        layout_(pipelines_.schedule.layout()),
        worker_(pipelines_.worker_of(rank)),
        pipeline_(pipelines_.pipeline_of(rank)),
        plan_(experiment.plan) {}

  void open_step(std::uint64_t step) override {
    const Plan::Position at = plan_.position(step);
    samples_ = plan_.samples(at.epoch, at.step)[pipeline_];
    actions_.clear();
    for (const Action& action : pipelines_.schedule.orders[worker_])
      if (count(action) > 0) actions_.push_back(action);
  }
  void open_task_batch(std::size_t, std::uint64_t step) override { open_step(step); }
  void open_test(Slice) override { actions_.clear(); }
  std::vector<Action> actions() const override { return actions_; }
  std::vector<Passage> needs(const Action& action) override { return passages(action, true); }
  std::vector<Passage> run(const Action& action) override {
    if (action == actions_.back()) tell_all_ready();
    return passages(action, false);
  }

 private:
  std::size_t count(const Action& action) const {
    return pipelines_.schedule.samples_of(samples_, action.replica, action.micro).count;
  }
  // What comes to an action from other workers, or goes from it to them: forward along the links,
  // and back.
  std::vector<Passage> passages(const Action& action, bool inward) const {
    std::vector<Passage> all;
    const bool forward = action.pass == StagePass::forward;
    if (!forward && action.pass != StagePass::backward && action.pass != StagePass::backward_inputs)
      return all;
    const auto& links = pipelines_.sizes.links;
    for (std::size_t l = 0; l < links.size(); ++l) {
      const auto [from, to, numbers] = links[l];
      const bool at_its_end = forward == inward;  // of the link, as it goes forward
      if ((at_its_end ? to : from) != action.stage) continue;
      const int other = at_its_end ? from : to;
      const int worker = layout_.rank_of({action.replica, other});
      if (worker == worker_) continue;
      Action sends = action;
      if (inward) sends.stage = other;
      all.push_back({worker, static_cast<int>(l), sends,
                     Values::hollow(numbers * count(action), Type::fp32)});
    }
    return all;
  }

  const Pipelines& pipelines_;
  const Layout layout_;  // of this pipeline alone
  const int worker_, pipeline_;
  Plan plan_;
  std::size_t samples_ = 0;  // of the open step
  std::vector<Action> actions_;
};

}  // namespace

std::unique_ptr<Learner> make_hollow_stages(const Experiment& experiment, int rank,
                                            const OpenMemory& open) {
  std::vector<Parameter> parameters;
  std::size_t count = 0;
  for (const int stage : experiment.pipelines->stages_of(rank))
    for (Parameter one : experiment.pipelines->sizes.parameters.at(stage)) {
      one.slice.begin = count;
      count += one.slice.count;
      parameters.push_back(std::move(one));
    }
  open(count);
  return std::make_unique<HollowStages>(experiment, rank, std::move(parameters));
}

std::unique_ptr<Learner> make_hollow_learner(const Experiment& experiment, const OpenMemory& open) {
  open(experiment.hollow_parameters());
  return std::make_unique<HollowLearner>(experiment);
}

}  // namespace lockstep
