#include "train/staged_learner.h"

#include <algorithm>
#include <cmath>
#include <compare>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "core/rng.h"
#include "measure/machine.h"
#include "replica/network_part.h"
#include "replica/split_backward.h"
#include "train/network_cut.h"
#include "train/stage_buffers.h"
#include "train/torch_learning.h"
#include "transport/real_rank.h"

namespace lockstep {
namespace {

// The distinct stages of a worker, in order.
std::vector<int> stages_of(const PipelineSchedule& schedule, int worker) {
  const Layout layout = schedule.layout();
  std::set<int> stages;
  for (const Role role : layout.roles_of(worker)) stages.insert(role.stage);
  return {stages.begin(), stages.end()};
}

torch::Tensor one_sample(const Dataset& set) {
  return Loader(
             set,
             [](std::uint64_t) {
               return Picks{{0}, 1};
             },
             1)
      .batch(0)
      .x;
}

// A stage that this worker holds.
struct HeldStage {
  BlockRun run;
  std::size_t first_block;
  int roles;  // replicas that it is held for
  StageBuffers buffers;
};

// A micro-batch at a stage, between its forward and the last of its backward passes.
struct InFlight {
  Tensors inputs;   // leaves
  Tensors outputs;  // with their graph; on the last stage the loss
  SplitBackward split;
};

class StagedLearner final : public Learner {
 public:
  StagedLearner(const Experiment& experiment, int rank, const PipelineSeat& seat,
                std::unique_ptr<Network> whole, const OpenMemory& open, const ComputeTurns& turns)
      : experiment_(experiment),
        seat_(seat),
        layout_(seat.schedule.layout()),
        plan_(experiment.plan),
        cut_(*whole, seat.counts, one_sample(*experiment.data.train)),
        stages_(stages_of(seat.schedule, seat.worker)),
        replica_(replica_input(experiment, rank,
                               network_part(std::move(whole), cut_.blocks_of(stages_)), open,
                               turns)),
        watch_(replica_, rank),
        memory_(replica_),
        reads_(holds(0) || holds(cut_.stages() - 1)) {
    for (const int stage : stages_) {
      const auto roles =
          static_cast<int>(std::ranges::count(layout_.roles_of(seat_.worker), stage, &Role::stage));
      BlockRun run = cut_.run_of(stage);
      StageBuffers buffers(buffers_of(run.blocks()), roles);
      held_.emplace(
          stage, HeldStage{std::move(run), cut_.blocks_of(stage).begin, roles, std::move(buffers)});
    }
    train_.emplace(
        *experiment_.data.train, [this](std::uint64_t step) { return picks(step); },
        experiment_.steps, experiment_.readers.get());
  }

  Replica& replica() override { return replica_; }

  void open_step(std::uint64_t step) override {
    step_ = step;
    memory_.open();
    const double start = wall_now();
    const Plan::Position at = plan_.position(step);
    step_samples_ = plan_.indices(seat_.pipeline, at.epoch, at.step).size();
    if (reads_) batch_ = train_->batch(step);
    if (!holds(0)) batch_.x.reset();
    loss_ = 0;
    times_ = {wall_now() - start, 0, {}};
    watch_.open(step);
    replica_.begin();
    list_actions();
  }
  void open_task_batch(std::size_t, std::uint64_t) override { no_tasks(); }
  void open_task(const std::vector<std::uint32_t>&, std::size_t, int) override { no_tasks(); }
  void open_test(Slice part) override {
    const auto micros = static_cast<std::size_t>(seat_.schedule.replicas * seat_.schedule.micros);
    test_size_ = (experiment_.full_batch(seat_.pipeline) + micros - 1) / micros;
    test_part_ = part;
    const auto batches = static_cast<int>((part.count + test_size_ - 1) / test_size_);
    test_.emplace(
        *experiment_.data.test,
        [=, size = test_size_](std::uint64_t i) { return test_picks(part, i, size); },
        static_cast<std::uint64_t>(batches), experiment_.readers.get());
    tally_ = answers() ? empty_tally(*experiment_.data.test) : Tally{};
    replica_.set_training(false);
    list_test_actions(batches);
  }

  std::vector<Action> actions() const override { return actions_; }

  std::vector<Passage> needs(const Action& action) override {
    std::vector<Passage> needed;
    const auto need = [&](int link, int stage, bool gradient) {
      const int worker = worker_of(action.replica, stage);
      if (worker == seat_.worker) return;
      torch::Tensor& memory = passing_[{link, action.replica, action.micro, gradient}];
      if (!memory.defined()) memory = torch::empty(shape_of(link, action));
      const Action sends{action.pass, action.replica, stage, action.micro};
      needed.push_back({worker, link, sends, values_of(memory), {}});
    };
    if (action.pass == StagePass::forward)
      for (const int link : cut_.into(action.stage)) need(link, cut_.links()[link].from, false);
    if (action.pass == StagePass::backward || action.pass == StagePass::backward_inputs)
      for (const int link : cut_.out_of(action.stage)) need(link, cut_.links()[link].to, true);
    return needed;
  }

  std::vector<Passage> run(const Action& action) override {
    const double start = wall_now();
    std::vector<Passage> made = replica_.compute([&] { return run_pass(action); });
    const bool back = action.pass != StagePass::forward;
    (back ? times_.backward_s : times_.forward_s) += wall_now() - start;
    return made;
  }

  double end_step() override {
    replica_.end();
    memory_.close();
    close();
    const double loss = step_samples_ > 0 ? loss_ / static_cast<double>(step_samples_) : 0;
    watch_.close(loss);
    return loss;
  }
  Tally end_test() override {
    test_.reset();
    close();
    return std::exchange(tally_, {});
  }

  void on_slice_ready(std::function<void(Slice)> ready) override {
    replica_.on_slice_ready([this, ready = std::move(ready)](Slice part) {
      times_.ready.push_back({part, times_.backward_s + wall_now() - last_backward_});
      if (watch_.may_tell(part, std::isfinite(loss_))) ready(part);
    });
  }
  const Times& last() const override { return times_; }

  // Of each stage, in order: those of each replica that has it.
  std::vector<float> statistics() override {
    std::vector<float> all;
    for (auto& [stage, held] : held_) {
      const std::vector<float> own = held.buffers.all();
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }
  void set_statistics(const std::vector<float>& numbers) override {
    if (const std::size_t expected = statistics().size(); numbers.size() != expected)
      throw InternalError(fmt::format("{} statistics for stages of {}", numbers.size(), expected));
    std::span<const float> left = numbers;
    for (auto& [stage, held] : held_) {
      const std::size_t count = held.buffers.all().size();
      held.buffers.set(left.first(count));
      left = left.subspan(count);
    }
  }
  void save_model(const std::string& path) override {
    for (auto& [stage, held] : held_) held.buffers.take_mean();
    replica_.network().save(path);
  }
  Model held_by_network() override {
    return {replica_.network().numbers().parameters, statistics()};
  }
  Model read_model(const std::string& path) override {
    return model_from(replica_.network().read_saved(path));
  }

  std::vector<Blob> state() override {
    state_ = statistics();
    std::vector<Blob> blobs{{"statistics", {state_.data(), state_.size() * sizeof(float)}}};
    add_optimiser_state(replica_.optimiser(), blobs);
    return blobs;
  }
  void restore(const Checkpoint& checkpoint, int rank) override {
    state_ = statistics();
    checkpoint.read(rank, "statistics",
                    {reinterpret_cast<std::byte*>(state_.data()), state_.size() * sizeof(float)});
    set_statistics(state_);
    restore_optimiser(replica_.optimiser(), checkpoint, rank);
  }

  std::optional<std::uint64_t> peak_tensor_bytes() override { return memory_.peak_bytes(); }
  std::vector<std::string> damaged() const override { return experiment_.data.train->damaged(); }

 private:
  // A tensor between two stages, of one micro-batch.
  struct Key {
    int link, replica, micro;
    bool gradient;
    auto operator<=>(const Key&) const = default;
  };
  // A micro-batch at a stage: replica, stage, number.
  using Place = std::tuple<int, int, int>;
  static Place place_of(const Action& a) { return {a.replica, a.stage, a.micro}; }

  [[noreturn]] static void no_tasks() {
    throw InternalError("a pipeline's stages are given a task");
  }
  static Values values_of(const torch::Tensor& tensor) {
    return {tensor.data_ptr(), static_cast<std::size_t>(tensor.numel()), Type::fp32};
  }

  bool holds(int stage) const { return std::ranges::find(stages_, stage) != stages_.end(); }
  bool is_last(int stage) const { return stage == cut_.stages() - 1; }
  int worker_of(int replica, int stage) const { return layout_.rank_of({replica, stage}); }
  bool answers() const { return worker_of(0, cut_.stages() - 1) == seat_.worker; }

  Picks picks(std::uint64_t step) {
    const Plan::Position at = plan_.position(step);
    const auto indices = plan_.indices(seat_.pipeline, at.epoch, at.step);
    return {{indices.begin(), indices.end()}, variation(at.epoch)};
  }
  Slice samples_of(const Action& action) const {
    if (const std::size_t begin = action.micro * test_size_; test_)
      return {begin, std::min(test_size_, test_part_.count - begin)};
    return seat_.schedule.samples_of(step_samples_, action.replica, action.micro);
  }
  std::vector<std::int64_t> shape_of(int link, const Action& action) const {
    std::vector<std::int64_t> shape = cut_.links()[link].shape;
    shape.insert(shape.begin(), static_cast<std::int64_t>(samples_of(action).count));
    return shape;
  }

  // All that have samples, in the order of the schedule.
  void list_actions() {
    actions_.clear();
    last_of_.clear();
    for (const Action& action : seat_.schedule.orders.at(seat_.worker)) {
      if (seat_.schedule.samples_of(step_samples_, action.replica, action.micro).count == 0)
        continue;
      actions_.push_back(action);
      if (action.pass == StagePass::backward || action.pass == StagePass::backward_weights)
        last_of_[action.stage] = action;
    }
  }
  // Each batch follows the one before through the stages. What an action needs has a lower sum of
  // stage and number, so that no two workers wait for each other.
  void list_test_actions(int batches) {
    actions_.clear();
    for (int micro = 0; micro < batches; ++micro)
      for (const Role role : layout_.roles_of(seat_.worker))
        if (role.replica == 0) actions_.push_back({StagePass::forward, 0, role.stage, micro});
    std::ranges::stable_sort(actions_, {}, [](const Action& a) { return a.stage + a.micro; });
  }

  std::vector<Passage> run_pass(const Action& action) {
    HeldStage& held = held_.at(action.stage);
    test_ ? held.buffers.take_mean() : held.buffers.take_turn(action.replica);
    switch (action.pass) {
      case StagePass::forward:
        return forward(action, held);
      case StagePass::recompute:
        recompute(action, held);
        return {};
      case StagePass::backward:
      case StagePass::backward_inputs:
        return backward(action);
      case StagePass::backward_weights:
        tell_if_last(action);
        in_flight_.extract(place_of(action)).mapped().split.weights();
        return {};
    }
    return {};
  }

  std::vector<Passage> forward(const Action& action, const HeldStage& held) {
    InFlight now{inputs_of(action), {}, {}};
    const bool keeps_graph = !test_ && !seat_.schedule.recomputes;
    {
      const torch::AutoGradMode mode(keeps_graph);
      now.outputs = compute_stage(action, held, now.inputs);
    }
    std::vector<Passage> made;
    for (std::size_t i = 0; i < cut_.out_of(action.stage).size(); ++i)
      pass_on(cut_.out_of(action.stage)[i], false, now.outputs[i], action, made);
    if (is_last(action.stage)) answer(action, now.outputs);
    if (!keeps_graph) now.outputs.clear();
    if (!test_) in_flight_.emplace(place_of(action), std::move(now));
    return made;
  }

  // The same forward once more, with the same random numbers, from the inputs that were kept. It
  // hands nothing on, and batch norm has seen this micro-batch before.
  void recompute(const Action& action, const HeldStage& held) {
    InFlight& now = in_flight_.at(place_of(action));
    const std::vector<float> statistics = held.buffers.read();
    now.outputs = compute_stage(action, held, now.inputs);
    held.buffers.write(statistics);
  }

  // On the last stage that comes to the loss of a step, or to the answers of a test.
  Tensors compute_stage(const Action& action, const HeldStage& held, const Tensors& inputs) {
    Tensors outputs = held.run.forward(inputs, [&](std::size_t block) {
      if (!test_) seed_block(action, held.first_block + block);
    });
    if (is_last(action.stage) && !test_)
      outputs.back() = cross_entropy(outputs.back(), samples(batch_.y, action));
    return outputs;
  }

  // Notes the loss of a micro-batch, or how it was answered.
  void answer(const Action& action, const Tensors& outputs) {
    if (test_)
      add(test_batch(action.micro), outputs.back(), tally_);
    else
      loss_ += outputs.back().item<double>() * static_cast<double>(samples_of(action).count);
  }

  std::vector<Passage> backward(const Action& action) {
    InFlight& now = in_flight_.at(place_of(action));
    Tensors gradients;
    for (const int link : cut_.out_of(action.stage))
      gradients.push_back(passing_.extract(key_of(link, action, true)).mapped());
    if (is_last(action.stage)) gradients.push_back(loss_gradient(action));
    // Two replicas that add to the same gradients average them: each counts for half, and what goes
    // on for twice that again. Both are exact.
    const auto roles = static_cast<float>(held_.at(action.stage).roles);
    if (roles > 1)
      for (torch::Tensor& gradient : gradients) gradient = gradient / roles;

    last_backward_ = wall_now();
    Tensors found;
    if (action.pass == StagePass::backward_inputs) {
      replica_.tell_ready(false);
      found = now.split.inputs(now.outputs, gradients, now.inputs);
      now.outputs.clear();
    } else {
      tell_if_last(action);
      found = lockstep::backward(now.outputs, gradients, now.inputs);
    }
    std::vector<Passage> made;
    for (std::size_t i = 0; i < cut_.into(action.stage).size(); ++i) {
      torch::Tensor gradient = found[i].defined() ? found[i] : torch::zeros_like(now.inputs[i]);
      if (roles > 1) gradient = gradient * roles;
      pass_on(cut_.into(action.stage)[i], true, gradient, action, made);
    }
    if (action.pass == StagePass::backward) in_flight_.erase(place_of(action));
    return made;
  }

  // Of a micro-batch's mean loss in the step's: by its samples, see above for the replicas.
  torch::Tensor loss_gradient(const Action& action) const {
    const double share =
        static_cast<double>(samples_of(action).count) / static_cast<double>(step_samples_);
    return torch::full({}, seat_.schedule.replicas * share);
  }

  // The gradients of a stage are final in the last backward that adds to them.
  void tell_if_last(const Action& action) {
    last_backward_ = wall_now();
    replica_.tell_ready(last_of_.at(action.stage) == action);
  }

  // Dropout draws by sample and block alone: neither the cut nor the order of passes matters.
  void seed_block(const Action& action, std::size_t block) const {
    std::uint64_t seed = experiment_.config.seed ^ purpose_of("dropout of blocks");
    const int micro = action.replica * seat_.schedule.micros + action.micro;
    for (const auto part : {static_cast<std::uint64_t>(seat_.pipeline), step_,
                            static_cast<std::uint64_t>(micro), static_cast<std::uint64_t>(block)})
      seed = mixed(seed + part);
    at::Generator drawn_from = at::detail::getDefaultCPUGenerator();  // a handle
    drawn_from.set_current_seed(seed);
  }

  // Where this worker has the first and the last stage it reads each batch once.
  torch::Tensor test_samples(int micro) {
    Batch batch = test_->batch(static_cast<std::uint64_t>(micro));
    if (answers()) truths_[micro] = {{}, batch.y};
    return batch.x;
  }
  Batch test_batch(int micro) {
    auto read = truths_.extract(micro);
    return read ? read.mapped() : test_->batch(static_cast<std::uint64_t>(micro));
  }

  // A micro-batch of the whole batch's samples.
  torch::Tensor samples(const torch::Tensor& all, const Action& action) const {
    const Slice part = samples_of(action);
    return all.narrow(0, static_cast<std::int64_t>(part.begin),
                      static_cast<std::int64_t>(part.count));
  }
  Tensors inputs_of(const Action& action) {
    if (action.stage == 0) return {test_ ? test_samples(action.micro) : samples(batch_.x, action)};
    Tensors inputs;
    for (const int link : cut_.into(action.stage))
      inputs.push_back(leaf_of(passing_.extract(key_of(link, action, false)).mapped()));
    return inputs;
  }

  static Key key_of(int link, const Action& action, bool gradient) {
    return {link, action.replica, action.micro, gradient};
  }
  // To another stage of this worker, which finds it where needs() would have put it, or to another
  // worker.
  void pass_on(int link, bool gradient, const torch::Tensor& tensor, const Action& action,
               std::vector<Passage>& made) {
    const TensorLink& way = cut_.links()[link];
    const int worker = worker_of(action.replica, gradient ? way.from : way.to);
    const torch::Tensor numbers = tensor.detach().contiguous();
    if (worker == seat_.worker)
      passing_[key_of(link, action, gradient)] = numbers;
    else
      made.push_back({worker, link, action, values_of(numbers),
                      std::make_shared<const torch::Tensor>(numbers)});
  }

  void close() {
    passing_.clear();
    in_flight_.clear();
    actions_.clear();
    batch_ = {};
  }

  const Experiment& experiment_;
  const PipelineSeat seat_;
  const Layout layout_;  // of this pipeline alone
  Plan plan_;
  const NetworkCut cut_;
  const std::vector<int> stages_;
  TorchReplica replica_;
  GradientWatch watch_;
  StepMemory memory_;
  std::map<int, HeldStage> held_;  // by stage

  std::optional<Loader> train_;
  std::size_t step_samples_ = 0;  // of the pipeline, in the open step
  const bool reads_;              // samples: the first stage needs them, the last one their classes
  Batch batch_;
  std::uint64_t step_ = 0;
  double loss_ = 0;  // the sum over the samples so far

  std::optional<Loader> test_;  // while a part of the test set is open
  Slice test_part_;
  std::size_t test_size_ = 1;    // samples of a micro-batch
  std::map<int, Batch> truths_;  // of batches that were read for the first stage
  Tally tally_;

  std::vector<Action> actions_;    // of the open batch
  std::map<int, Action> last_of_;  // by stage: the last that adds to its gradients
  std::map<Place, InFlight> in_flight_;
  std::map<Key, torch::Tensor> passing_;  // what stages of this worker have yet to use

  double last_backward_ = 0;  // when it began, in wall-clock time
  Times times_;
  std::vector<float> state_;
};

}  // namespace

std::unique_ptr<Learner> make_staged_learner(const Experiment& experiment, int rank,
                                             const PipelineSeat& seat,
                                             std::unique_ptr<Network> whole, const OpenMemory& open,
                                             const ComputeTurns& turns) {
  torch::set_num_threads(experiment.threads(this_machine().cores));
  return std::make_unique<StagedLearner>(experiment, rank, seat, std::move(whole), open, turns);
}

void join_parts(Network& whole, const PipelineSchedule& schedule, const BlockCounts& counts,
                std::span<const Model> by_worker) {
  const std::vector<Block> blocks = whole.blocks();
  if (std::ssize(by_worker) != schedule.workers || std::ssize(counts) != schedule.stages ||
      std::accumulate(counts.begin(), counts.end(), 0) != std::ssize(blocks))
    throw InternalError(fmt::format("{} parts of a pipeline of {} workers and {} blocks",
                                    by_worker.size(), schedule.workers, blocks.size()));
  const Layout layout = schedule.layout();
  for (int worker = 0; worker < schedule.workers; ++worker) {
    std::span<const float> weights = by_worker[worker].weights;
    std::span<const float> statistics = by_worker[worker].statistics;
    const auto take = [](std::span<const float>& from, std::size_t count) {
      if (count > from.size())
        throw InternalError("a part of a pipeline's network has too few numbers");
      const auto taken = from.first(count);
      from = from.subspan(count);
      return taken;
    };
    for (const int stage : stages_of(schedule, worker)) {
      const int begin = std::accumulate(counts.begin(), counts.begin() + stage, 0);
      const auto held = std::span(blocks).subspan(begin, counts[stage]);
      const auto parameters = parameters_of(held), buffers = buffers_of(held);
      fill(parameters, take(weights, parameter_count(parameters)));
      if (by_worker[worker].statistics.empty()) continue;
      std::vector<std::vector<float>> copies;
      for (const Role role : layout.roles_of(worker)) {
        if (role.stage != stage) continue;
        const auto own = take(statistics, parameter_count(buffers));
        copies.emplace_back(own.begin(), own.end());
      }
      fill(buffers, StageBuffers::mean_of(copies));
    }
    if (!weights.empty() || !statistics.empty())
      throw InternalError("a part of a pipeline's network has too many numbers");
  }
}

}  // namespace lockstep
