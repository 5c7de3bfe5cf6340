// A network without LibTorch, computed by hand, that can be cut over the workers of a pipeline: a
// chain of linear layers with skip connections. Half of the squared distance from what the answers
// should be is its loss.
#pragma once

#include <map>

#include "strategies/toy_replica.h"
#include "train/pipelines.h"
#include "train/worker.h"

namespace lockstep::testing {

using Floats = std::vector<float>;

// The output of layer `from` is added to the input of layer `to`.
struct ToySkip {
  int from = 0, to = 0;
};

struct ToyNetwork {
  int layers = 1;
  std::vector<ToySkip> skips;
  std::size_t width = 3;  // of samples, between layers, and of answers

  std::size_t weights_of_layer() const { return width * width; }
};

// Bugs that tests plant.
enum class ToyBug { none, drops_skip_gradient, counts_first_micro_twice };

// The stages of one worker of a pipeline, which takes `samples` samples a step.
class ToyStages final : public Learner {
 public:
  // A tensor that a stage makes and another one needs: the output of layer `from`, by layer `to`.
  struct Link {
    int from_stage = 0, to_stage = 0, from = 0, to = 0;
    bool skip = false;
  };

  // `number`: of the pipeline, which has samples of its own.
  ToyStages(const ToyNetwork& network, const Pipelines& pipelines, int worker, std::size_t samples,
            int number = 0, ToyBug bug = ToyBug::none)
      : network_(network),
        schedule_(pipelines.schedule),
        layout_(schedule_.layout()),
        worker_(worker),
        stages_(pipelines.stages_of(worker)),
        samples_(samples),
        number_(number),
        bug_(bug),
        replica_(nullptr, Memory::plain, count_of(pipelines), 0.1f, 0.5f) {
    for (int s = 0, begin = 0; s < schedule_.stages; begin += pipelines.cut[s++]) {
      begins_.push_back(begin);
      stage_of_.insert(stage_of_.end(), pipelines.cut[s], s);
    }
    begins_.push_back(network.layers);
    for (int s = 1; s < schedule_.stages; ++s)
      links_.push_back({s - 1, s, begins_[s] - 1, begins_[s], false});
    for (const ToySkip& skip : network.skips)
      if (stage_of_[skip.from] != stage_of_[skip.to])
        links_.push_back({stage_of_[skip.from], stage_of_[skip.to], skip.from, skip.to, true});
    std::size_t place = 0;
    for (const int stage : stages_)
      for (int layer = begins_[stage]; layer < begins_[stage + 1]; ++layer, ++place)
        places_[layer] = place * network.weights_of_layer();
    for (const auto& [layer, at] : places_)
      for (std::size_t i = 0; i < network.weights_of_layer(); ++i)
        replica_.weight_span()[at + i] = draw(layer * network.weights_of_layer() + i);
  }

  const std::vector<Link>& links() const { return links_; }
  // Where the weights and gradients of a layer are in the replica.
  Slice place_of(int layer) const { return {places_.at(layer), network_.weights_of_layer()}; }
  ToyReplica& toy_replica() { return replica_; }

  Replica& replica() override { return replica_; }
  void open_step(std::uint64_t step) override {
    step_ = step;
    loss_ = 0;
    is_test_ = false;
    std::ranges::fill(replica_.gradient_span(), 0.0f);
    work_.clear();
  }
  void open_task_batch(std::size_t, std::uint64_t step) override { open_step(step); }
  void open_test(Slice) override {
    is_test_ = true;
    tally_ = {};
    work_.clear();
  }

  std::vector<Action> actions() const override {
    std::vector<Action> all;
    if (!is_test_) {
      for (const Action& action : schedule_.orders[worker_])
        if (count(action) > 0) all.push_back(action);
      return all;
    }
    for (int micro = 0; micro < schedule_.micros; ++micro)
      for (const Role role : layout_.roles_of(worker_))
        if (const Action action{StagePass::forward, role.replica, role.stage, micro};
            role.replica == 0 && count(action) > 0)
          all.push_back(action);
    return all;
  }
  std::vector<Passage> needs(const Action& action) override {
    std::vector<Passage> all;
    for (std::size_t l = 0; l < links_.size(); ++l) {
      const Link& link = links_[l];
      if (is_local(link)) continue;
      if (link.to_stage == action.stage && action.pass == StagePass::forward)
        all.push_back(passage(l, link.from_stage, sender(action, link.from_stage),
                              work(action).inward[static_cast<int>(l)]));
      if (link.from_stage == action.stage && is_backward_of_inputs(action))
        all.push_back(passage(l, link.to_stage, sender(action, link.to_stage),
                              work(action).back[static_cast<int>(l)]));
    }
    for (Passage& one : all) resize(one, action);
    return all;
  }
  std::vector<Passage> run(const Action& action) override {
    switch (action.pass) {
      case StagePass::forward:
      case StagePass::recompute:
        forward(action);
        break;
      case StagePass::backward:
        backward_inputs(action);
        backward_weights(action);
        break;
      case StagePass::backward_inputs:
        backward_inputs(action);
        break;
      case StagePass::backward_weights:
        backward_weights(action);
        break;
    }
    std::vector<Passage> all;
    for (std::size_t l = 0; l < links_.size(); ++l) {
      const Link& link = links_[l];
      if (is_local(link)) continue;
      if (link.from_stage == action.stage && action.pass == StagePass::forward)
        all.push_back(passage(l, link.to_stage, action, work(action).outputs[link.from]));
      if (link.to_stage == action.stage && is_backward_of_inputs(action))
        all.push_back(passage(l, link.from_stage, action, work(action).gradients[link.to]));
    }
    return all;
  }
  double end_step() override { return loss_; }
  Tally end_test() override { return tally_; }
  void on_slice_ready(std::function<void(Slice)> ready) override { ready_ = std::move(ready); }
  const Times& last() const override { return times_; }

  void open_task(const std::vector<std::uint32_t>&, std::size_t, int) override {}
  void save_model(const std::string&) override {}
  Model held_by_network() override { return {}; }
  Model read_model(const std::string&) override { return {}; }
  std::vector<Blob> state() override { return {}; }
  void restore(const Checkpoint&, int) override {}

 private:
  // Of one micro-batch of one replica, as far as this worker has it.
  struct Work {
    std::map<int, Floats> inputs, outputs;  // by layer
    std::map<int, Floats> gradients;        // of inputs, by layer
    std::map<int, Floats> above;            // gradients of outputs, by layer
    std::map<int, Floats> inward, back;     // what came from other workers, by link
  };

  static float draw(std::size_t i) { return static_cast<float>((i * 37 + 11) % 19) / 19 - 0.5f; }
  static Values values_of(Floats& numbers) { return {numbers.data(), numbers.size(), Type::fp32}; }
  std::size_t count_of(const Pipelines& pipelines) const {
    std::size_t layers = 0;
    for (const int stage : stages_) layers += static_cast<std::size_t>(pipelines.cut[stage]);
    return layers * network_.weights_of_layer();
  }
  std::size_t count(const Action& action) const {
    return schedule_.samples_of(samples_, action.replica, action.micro).count;
  }
  Work& work(const Action& action) { return work_[{action.replica, action.micro}]; }
  bool is_local(const Link& link) const {
    return layout_.rank_of({0, link.from_stage}) == layout_.rank_of({0, link.to_stage});
  }
  static bool is_backward_of_inputs(const Action& action) {
    return action.pass == StagePass::backward || action.pass == StagePass::backward_inputs;
  }
  static Action sender(Action action, int stage) {
    action.stage = stage;
    return action;
  }
  Passage passage(std::size_t link, int other_stage, const Action& sends, Floats& numbers) const {
    return {layout_.rank_of({sends.replica, other_stage}), static_cast<int>(link), sends,
            values_of(numbers)};
  }
  // The memory of what is to come.
  void resize(Passage& one, const Action& action) {
    auto& by_link = action.pass == StagePass::forward ? work(action).inward : work(action).back;
    Floats& numbers = by_link[one.link];
    numbers.resize(count(action) * network_.width);
    one.numbers = values_of(numbers);
  }

  // The output of layer `from` where it goes into layer `to`, and the gradient on its way back.
  const Floats& passed(const Action& action, int from, int to, bool skip, bool back) {
    Work& mine = work(action);
    for (std::size_t l = 0; l < links_.size(); ++l)
      if (const Link& link = links_[l];
          link.from == from && link.to == to && link.skip == skip && !is_local(link))
        return (back ? mine.back : mine.inward)[static_cast<int>(l)];
    return back ? mine.gradients[to] : mine.outputs[from];
  }
  static void add(Floats& sum, const Floats& more) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += more[i];
  }

  void forward(const Action& action) {
    const std::size_t w = network_.width, samples = count(action);
    const Slice mine = schedule_.samples_of(samples_, action.replica, action.micro);
    Work& at = work(action);
    for (int layer = begins_[action.stage]; layer < begins_[action.stage + 1]; ++layer) {
      Floats& in = at.inputs[layer];
      in.assign(samples * w, 0);
      if (layer == 0)
        for (std::size_t i = 0; i < in.size(); ++i)
          in[i] = draw(1000 * step_ + 7 * number_ + (mine.begin * w + i));
      else
        in = passed(action, layer - 1, layer, false, false);
      for (const ToySkip& skip : network_.skips)
        if (skip.to == layer) add(in, passed(action, skip.from, layer, true, false));
      Floats out(samples * w, 0);
      for (std::size_t s = 0; s < samples; ++s)
        for (std::size_t o = 0; o < w; ++o)
          for (std::size_t i = 0; i < w; ++i) out[s * w + o] += weight(layer, o, i) * in[s * w + i];
      // What may still be on its way to another worker is not written a second time.
      if (action.pass == StagePass::forward) at.outputs[layer] = std::move(out);
    }
    if (action.stage + 1 == schedule_.stages && action.pass == StagePass::forward) answer(action);
  }
  void answer(const Action& action) {
    const Floats& answers = work(action).outputs[network_.layers - 1];
    Floats& above = work(action).above[network_.layers - 1];
    above.resize(answers.size());
    for (std::size_t i = 0; i < answers.size(); ++i) {
      const float apart = answers[i] - draw(i % network_.width + 5);
      above[i] = apart * scale();
      (is_test_ ? tally_.loss_sum : loss_) += 0.5 * apart * apart / static_cast<double>(samples_);
    }
  }
  // A role's gradients are summed over its samples, so that their mean over the replicas is that of
  // all samples; a worker that holds a stage for two replicas adds both.
  float scale() const {
    const double sum = static_cast<double>(schedule_.replicas) / static_cast<double>(samples_);
    return static_cast<float>(sum);
  }
  void backward_inputs(const Action& action) {
    const std::size_t w = network_.width, samples = count(action);
    Work& at = work(action);
    for (int layer = begins_[action.stage + 1] - 1; layer >= begins_[action.stage]; --layer) {
      Floats& above = at.above[layer];
      if (layer + 1 < network_.layers) above = passed(action, layer, layer + 1, false, true);
      for (const ToySkip& skip : network_.skips)
        if (skip.from == layer && bug_ != ToyBug::drops_skip_gradient)
          add(above, passed(action, layer, skip.to, true, true));
      Floats& below = at.gradients[layer];
      below.assign(samples * w, 0);
      for (std::size_t s = 0; s < samples; ++s)
        for (std::size_t o = 0; o < w; ++o)
          for (std::size_t i = 0; i < w; ++i)
            below[s * w + i] += above[s * w + o] * weight(layer, o, i);
    }
  }
  void backward_weights(const Action& action) {
    const std::size_t w = network_.width;
    Work& at = work(action);
    const bool twice = bug_ == ToyBug::counts_first_micro_twice && action.micro == 0;
    const auto roles = layout_.roles_of(worker_);
    const auto held = std::ranges::count(roles, action.stage, &Role::stage);
    const float factor = (twice ? 2.0f : 1.0f) / static_cast<float>(held);
    for (int layer = begins_[action.stage + 1] - 1; layer >= begins_[action.stage]; --layer) {
      for (std::size_t s = 0; s < count(action); ++s)
        for (std::size_t o = 0; o < w; ++o)
          for (std::size_t i = 0; i < w; ++i)
            replica_.gradient_span()[places_[layer] + o * w + i] +=
                factor * at.above[layer][s * w + o] * at.inputs[layer][s * w + i];
      if (ready_ && action.micro + 1 == schedule_.micros) ready_(place_of(layer));
    }
  }
  float weight(int layer, std::size_t o, std::size_t i) {
    return replica_.weight_span()[places_[layer] + o * network_.width + i];
  }

  const ToyNetwork network_;
  const PipelineSchedule schedule_;
  const Layout layout_;
  const int worker_;
  const std::vector<int> stages_;
  const std::size_t samples_;
  const std::size_t number_;
  const ToyBug bug_;
  ToyReplica replica_;
  std::vector<int> begins_;    // the first layer of each stage; then how many there are
  std::vector<int> stage_of_;  // by layer
  std::vector<Link> links_;
  std::map<int, std::size_t> places_;  // by layer
  std::map<std::pair<int, int>, Work> work_;
  std::uint64_t step_ = 0;
  double loss_ = 0;
  bool is_test_ = false;
  Tally tally_;
  std::function<void(Slice)> ready_;
  const Times times_;
};

}  // namespace lockstep::testing
