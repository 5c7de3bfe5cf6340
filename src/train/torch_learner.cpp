// The learner that computes with LibTorch: a whole network, and a whole batch at once.
#include <algorithm>
#include <cfenv>
#include <cmath>
#include <optional>
#include <utility>

#include "data/loader.h"
#include "measure/machine.h"
#include "models/registry.h"
#include "replica/network_part.h"
#include "replica/tensor_bytes.h"
#include "train/mask_scores.h"
#include "train/torch_learning.h"
#include "transport/real_rank.h"

namespace lockstep {
namespace {

// How many samples are answered at a time: fewer of large ones, whose activations would not fit.
std::size_t test_batch(const Dataset& set) {
  constexpr std::size_t kMost = 500, kNumbers = kMost * 4096;
  return std::clamp<std::size_t>(kNumbers / set.values(), 1, kMost);
}

// This thread's arithmetic has produced a NaN, or an infinity, since these flags were cleared. The
// processor keeps note of that for free, where looking at every gradient would cost a pass over
// them.
constexpr int kBadArithmetic = FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW;

// Other threads keep notes of their own.
bool may_be_bad() { return std::fetestexcept(kBadArithmetic) != 0 || torch::get_num_threads() > 1; }

}  // namespace

torch::Tensor cross_entropy(const torch::Tensor& output, const torch::Tensor& y) {
  return torch::nn::functional::cross_entropy(output, y);
}

Picks test_picks(Slice part, std::uint64_t batch, std::size_t size) {
  Picks picks;
  const std::size_t begin = part.begin + batch * size;
  for (std::size_t i = begin; i < std::min(begin + size, part.end()); ++i)
    picks.indices.push_back(static_cast<std::uint32_t>(i));
  return picks;
}

void add(const Batch& batch, const torch::Tensor& output, Tally& tally) {
  const auto labels = batch.y.numel();
  tally.loss_sum += cross_entropy(output, batch.y).item<double>() * static_cast<double>(labels);
  const torch::Tensor best = output.argmax(1);
  const auto* answer = best.data_ptr<std::int64_t>();
  const auto* truth = batch.y.data_ptr<std::int64_t>();
  if (batch.y.dim() == 3)
    for (std::int64_t i = 0, pixels = labels / batch.y.size(0); i < labels; i += pixels)
      tally.dice_sum +=
          dice_of({answer + i, static_cast<std::size_t>(pixels)},
                  {truth + i, static_cast<std::size_t>(pixels)}, tally.samples.size());
  for (std::int64_t i = 0; i < labels; ++i) {
    tally.samples[truth[i]] += 1;
    tally.answers[answer[i]] += 1;
    if (answer[i] == truth[i]) tally.correct[truth[i]] += 1;
  }
}

Tally empty_tally(const Dataset& test) {
  const std::vector<double> none(test.classes());
  return {none, none, none};
}

Model model_from(Network::Numbers numbers) {
  return {std::move(numbers.parameters), std::move(numbers.buffers)};
}

std::uint64_t variation(int epoch) { return static_cast<std::uint64_t>(epoch) + 1; }

void GradientWatch::open(std::uint64_t step) {
  step_ = step;
  bad_.reset();
  std::feclearexcept(kBadArithmetic);
}

bool GradientWatch::may_tell(Slice part, bool loss_is_finite) {
  tells_ = true;
  // What came with the samples raises no flag, but shows in the loss.
  if (!bad_ && (may_be_bad() || !loss_is_finite)) bad_ = replica_.first_bad_gradient(part);
  return !bad_ && loss_is_finite;
}

void GradientWatch::close(double loss) const {
  if (!may_be_bad() && std::isfinite(loss)) return;
  const auto bad = tells_ ? bad_ : replica_.first_bad_gradient();
  if (!bad && std::isfinite(loss)) return;
  throw BadGradient(fmt::format(
      "rank {}, step {}: {} is not finite; lower the learning rate, or look at the data", rank_,
      step_, bad ? "the gradient of " + *bad : fmt::format("the loss ({})", loss)));
}

StepMemory::StepMemory(TorchReplica& replica) : replica_(replica) { count_tensor_bytes(); }
void StepMemory::open() { forget_tensor_peak(); }
void StepMemory::close() { tensors_ = std::max(tensors_, peak_tensor_bytes()); }
std::uint64_t StepMemory::peak_bytes() const {
  const std::size_t runs = 2 + replica_.optimiser().state().size();
  return tensors_ + runs * replica_.model().count() * sizeof(float);
}

namespace {

// A part of the test set that is being answered, batch by batch.
class Test {
 public:
  Test(const Experiment& experiment, Slice part)
      : Test(experiment, part, test_batch(*experiment.data.test)) {}

  int batches() const { return batches_; }
  void answer(int i, const Forward& predict) {
    const Batch batch = loader_.batch(static_cast<std::uint64_t>(i));
    add(batch, predict(batch.x), tally_);
  }
  const Tally& tally() const { return tally_; }

 private:
  Test(const Experiment& experiment, Slice part, std::size_t at_a_time)
      : batches_(static_cast<int>((part.count + at_a_time - 1) / at_a_time)),
        loader_(
            *experiment.data.test, [=](std::uint64_t i) { return test_picks(part, i, at_a_time); },
            static_cast<std::uint64_t>(batches_), experiment.readers.get()),
        tally_(empty_tally(*experiment.data.test)) {}

  const int batches_;
  Loader loader_;
  Tally tally_;
};

// Its network is in use, not in training, and so draws no random numbers: it may compute while the
// rank's own network does, which has LibTorch's one generator to itself.
class TorchExaminer final : public Examiner {
 public:
  TorchExaminer(const Experiment& experiment, const ComputeTurns& turns)
      : experiment_(experiment), network_(network_for(experiment, turns)) {
    network_->train(false);
    parameters_ = network_->parameters();
    buffers_ = network_->buffers();
  }

  void take(const Model& model) override {
    fill(parameters_, model.weights);
    if (!model.statistics.empty()) fill(buffers_, model.statistics);
  }
  Model held() override { return model_from(network_->numbers()); }
  Tally tally(Slice part) override {
    torch::set_num_threads(experiment_.threads(this_machine().cores));
    const torch::NoGradGuard no_grad;
    Test test(experiment_, part);
    for (int i = 0; i < test.batches(); ++i)
      test.answer(i, [&](const auto& x) { return network_->forward(x); });
    return test.tally();
  }

 private:
  const Experiment& experiment_;
  const std::unique_ptr<Network> network_;
  std::vector<NamedTensor> parameters_, buffers_;
};

Schedule schedule_of(const Experiment& experiment, const Options& optimiser) {
  const TrainConfig& config = experiment.config;
  ScheduleInput input;
  input.base_lr = optimiser.number("lr");
  input.scale = experiment.lr_scale;
  input.warmup_epochs = config.warmup_epochs;
  input.steps_per_epoch = experiment.steps_per_epoch;
  input.steps = experiment.steps_of_schedule;
  return {config.lr_schedule, input};
}

}  // namespace

TorchReplicaInput replica_input(const Experiment& experiment, int rank,
                                std::unique_ptr<Network> network, const OpenMemory& open,
                                const ComputeTurns& turns) {
  check_trainable(*network);
  const ReplicaMemory memory = open(parameter_count(*network));
  Options optimiser = optimiser_options(replica_optimiser(experiment.config));
  Schedule schedule = schedule_of(experiment, optimiser);
  return {std::move(network),
          memory.weights,
          memory.gradients,
          std::move(optimiser),
          std::move(schedule),
          experiment.config.seed,
          rank,
          {turns.take, turns.give}};
}

void add_optimiser_state(Optimiser& optimiser, std::vector<Blob>& blobs) {
  for (const OptimiserState& s : optimiser.state())
    blobs.push_back({"optimiser-" + s.name, {s.values.data(), s.values.size_bytes()}});
}

void restore_optimiser(Optimiser& optimiser, const Checkpoint& checkpoint, int rank) {
  for (const OptimiserState& s : optimiser.state())
    checkpoint.read(rank, "optimiser-" + s.name,
                    {reinterpret_cast<std::byte*>(s.values.data()), s.values.size_bytes()});
}

namespace {

class TorchLearner final : public Learner {
 public:
  TorchLearner(const Experiment& experiment, int rank, const OpenMemory& open,
               const ComputeTurns& turns)
      : experiment_(experiment),
        rank_(rank),
        plan_(experiment.plan),
        replica_(replica_input(experiment, rank, network_for(experiment, turns), open, turns)),
        watch_(replica_, rank),
        memory_(replica_),
        team_{rank} {
    open_train();
  }

  Replica& replica() override { return replica_; }

  void open_step(std::uint64_t step) override {
    const double start = wall_now();
    open(train_->batch(step), start, step);
  }
  void open_task_batch(std::size_t i, std::uint64_t step) override {
    const double start = wall_now();
    open(task_->batch(i), start, step);
  }
  void open_test(Slice part) override { test_.emplace(experiment_, part); }

  std::vector<Action> actions() const override {
    std::vector<Action> all;
    for (int batch = 0; test_ && batch < test_->batches(); ++batch)
      all.push_back({.pass = StagePass::forward, .micro = batch});
    if (!test_ && batch_.x.size(0) > 0) all = {{StagePass::forward}, {StagePass::backward}};
    return all;
  }
  std::vector<Passage> run(const Action& action) override {
    if (action.pass == StagePass::backward) {
      replica_.backward(loss_);
      return {};
    }
    if (test_)
      test_->answer(action.micro, [&](const auto& x) { return replica_.predict(x); });
    else
      loss_ = replica_.forward(batch_.x, batch_.y, cross_entropy);
    forward_end_ = wall_now();
    return {};
  }

  double end_step() override {
    const double loss = loss_.defined() ? loss_.item<double>() : 0;
    loss_.reset();
    batch_ = {};
    replica_.end();
    memory_.close();
    times_.forward_s = forward_end_ - start_;
    times_.backward_s = wall_now() - forward_end_;
    watch_.close(loss);
    return loss;
  }
  Tally end_test() override {
    Tally tally = test_->tally();
    test_.reset();
    return tally;
  }

  void read_with(const Team& team) override {
    if (team == std::exchange(team_, team)) return;
    open_train();  // what was read ahead was another's part
  }
  void open_task(const std::vector<std::uint32_t>& indices, std::size_t batch, int epoch) override {
    const auto picks = [=](std::uint64_t i) {
      const Slice part = pieces({0, indices.size()}, batch).at(i);
      const auto first = indices.begin() + static_cast<std::ptrdiff_t>(part.begin);
      return Picks{{first, first + static_cast<std::ptrdiff_t>(part.count)}, variation(epoch)};
    };
    task_.emplace(*experiment_.data.train, picks, (indices.size() + batch - 1) / batch,
                  experiment_.readers.get());
  }
  void on_slice_ready(std::function<void(Slice)> ready) override {
    replica_.on_slice_ready([this, ready = std::move(ready)](Slice part) {
      times_.ready.push_back({part, wall_now() - forward_end_});
      const bool finite = !loss_.defined() || std::isfinite(loss_.item<double>());
      if (watch_.may_tell(part, finite)) ready(part);
    });
  }
  const Times& last() const override { return times_; }

  std::vector<float> statistics() override { return replica_.model().statistics(); }
  void set_statistics(const std::vector<float>& s) override { replica_.model().set_statistics(s); }
  void save_model(const std::string& path) override { replica_.network().save(path); }
  Model held_by_network() override { return model_from(replica_.network().numbers()); }
  Model read_model(const std::string& path) override {
    return model_from(replica_.network().read_saved(path));
  }

  std::vector<Blob> state() override {
    random_state_ = replica_.random().state();
    statistics_ = statistics();
    std::vector<Blob> blobs{{"random", {random_state_.data(), random_state_.size()}},
                            {"statistics", values_of(statistics_).bytes()}};
    add_optimiser_state(replica_.optimiser(), blobs);
    return blobs;
  }

  void restore(const Checkpoint& checkpoint, int rank) override {
    replica_.random().restore(checkpoint.read(rank, "random"));
    statistics_ = statistics();
    checkpoint.read(rank, "statistics", values_of(statistics_).bytes());
    set_statistics(statistics_);
    restore_optimiser(replica_.optimiser(), checkpoint, rank);
  }

  std::optional<std::uint64_t> peak_tensor_bytes() override { return memory_.peak_bytes(); }
  std::vector<std::string> damaged() const override { return experiment_.data.train->damaged(); }

 private:
  void open(Batch batch, double start, std::uint64_t step) {
    batch_ = std::move(batch);
    start_ = forward_end_ = start;
    times_.ready.clear();
    watch_.open(step);
    memory_.open();
    replica_.begin();
  }

  void open_train() {
    train_.emplace(
        *experiment_.data.train, [this](std::uint64_t step) { return picks(step); },
        experiment_.steps, experiment_.readers.get());
  }
  static Values values_of(std::vector<float>& v) { return {v.data(), v.size(), Type::fp32}; }
  Picks picks(std::uint64_t step) {
    const Plan::Position at = plan_.position(step);
    std::vector<std::uint32_t> all;
    for (int w = team_.first; w < team_.first + team_.size; ++w) {
      const auto indices = plan_.indices(w, at.epoch, at.step);
      all.insert(all.end(), indices.begin(), indices.end());
    }
    const Slice mine = chunk(all.size(), team_.readers, rank_ - team_.first);
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(mine.begin);
    return {{first, first + static_cast<std::ptrdiff_t>(mine.count)}, variation(at.epoch)};
  }

  const Experiment& experiment_;
  const int rank_;
  Plan plan_;
  TorchReplica replica_;
  GradientWatch watch_;
  StepMemory memory_;
  Team team_;
  std::optional<Loader> train_;
  std::optional<Loader> task_;
  std::optional<Test> test_;            // while a part of the test set is open
  Batch batch_;                         // of the open step
  torch::Tensor loss_;                  // of it, after forward
  double start_ = 0, forward_end_ = 0;  // of the open step, in wall-clock time
  Times times_;
  std::string random_state_;
  std::vector<float> statistics_;
};

}  // namespace

std::unique_ptr<Examiner> make_torch_examiner(const Experiment& experiment,
                                              const ComputeTurns& turns) {
  return std::make_unique<TorchExaminer>(experiment, turns);
}

std::unique_ptr<Network> network_for(const Experiment& experiment, const ComputeTurns& turns) {
  const Dataset& train = *experiment.data.train;
  return draw_network(experiment.config.seed,
                      [&] {
                        return make_model(
                            experiment.config.model,
                            {train.shape(), train.classes(), train.label_shape(), train.tokens()});
                      },
                      {turns.take, turns.give});
}

std::unique_ptr<Learner> make_torch_learner(const Experiment& experiment, int rank,
                                            const OpenMemory& open, const ComputeTurns& turns) {
  torch::set_num_threads(experiment.threads(this_machine().cores));
  return std::make_unique<TorchLearner>(experiment, rank, open, turns);
}

}  // namespace lockstep
