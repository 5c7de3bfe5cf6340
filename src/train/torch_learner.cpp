#include "train/torch_learner.h"

#include <cfenv>
#include <cmath>
#include <optional>
#include <utility>

#include "data/loader.h"
#include "measure/machine.h"
#include "replica/torch_replica.h"
#include "transport/real_rank.h"

namespace lockstep {
namespace {

constexpr std::size_t kTestBatch = 500;

// Has this thread's arithmetic produced a NaN, or an infinity, since it was made? The processor
// keeps note of that for free, where looking at every gradient would cost a pass over them.
class ArithmeticWatch {
 public:
  ArithmeticWatch() { std::feclearexcept(kBad); }
  bool alarmed() const { return std::fetestexcept(kBad) != 0; }

 private:
  static constexpr int kBad = FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW;
};

torch::Tensor cross_entropy(const torch::Tensor& output, const torch::Tensor& y) {
  return torch::nn::functional::cross_entropy(output, y);
}

Picks test_picks(Slice part, std::uint64_t batch) {
  Picks picks;
  const std::size_t begin = part.begin + batch * kTestBatch;
  for (std::size_t i = begin; i < std::min(begin + kTestBatch, part.end()); ++i)
    picks.indices.push_back(static_cast<std::uint32_t>(i));
  return picks;
}

void add(const Batch& batch, const torch::Tensor& output, Tally& tally) {
  const auto samples = batch.y.size(0);
  tally.loss_sum += cross_entropy(output, batch.y).item<double>() * static_cast<double>(samples);
  const torch::Tensor best = output.argmax(1);
  const auto* answer = best.data_ptr<std::int64_t>();
  const auto* truth = batch.y.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < samples; ++i) {
    tally.samples[truth[i]] += 1;
    tally.answers[answer[i]] += 1;
    if (answer[i] == truth[i]) tally.correct[truth[i]] += 1;
  }
}

// How `predict` answers that part of the test set.
Tally tally_of(const Experiment& experiment, Slice part, const Forward& predict) {
  const Dataset& set = *experiment.data.test;
  const std::vector<double> none(set.classes());
  Tally tally{none, none, none};
  Loader loader(
      set, [&](std::uint64_t i) { return test_picks(part, i); },
      (part.count + kTestBatch - 1) / kTestBatch, experiment.readers.get());
  for (std::uint64_t i = 0; i * kTestBatch < part.count; ++i) {
    const Batch batch = loader.batch(i);
    add(batch, predict(batch.x), tally);
  }
  return tally;
}

// Its network is in use, not in training: it draws no random numbers, so that it may compute while
// the rank's own does, which has LibTorch's one generator to itself.
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
  Model held() override { return {numbers_of(parameters_), numbers_of(buffers_)}; }
  Tally tally(Slice part) override {
    torch::set_num_threads(experiment_.threads(this_machine().cores));
    const torch::NoGradGuard no_grad;
    return tally_of(experiment_, part, [&](const auto& x) { return network_->forward(x); });
  }

 private:
  static void fill(const std::vector<NamedTensor>& tensors, const std::vector<float>& numbers) {
    const torch::NoGradGuard no_grad;
    std::size_t at = 0;
    for (const NamedTensor& named : tensors) {
      const auto count = static_cast<std::size_t>(named.tensor.numel());
      if (at + count > numbers.size()) break;
      torch::Tensor tensor = named.tensor;
      tensor.copy_(torch::from_blob(const_cast<float*>(numbers.data() + at), tensor.sizes()));
      at += count;
    }
    if (at != numbers.size()) throw InternalError("a model is scored that is another network's");
  }
  static std::vector<float> numbers_of(const std::vector<NamedTensor>& tensors) {
    std::vector<float> numbers;
    for (const NamedTensor& named : tensors) {
      const torch::Tensor flat = named.tensor.detach().contiguous();
      numbers.insert(numbers.end(), flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel());
    }
    return numbers;
  }

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

class TorchLearner final : public Learner {
 public:
  TorchLearner(const Experiment& experiment, int rank, const OpenMemory& open,
               const ComputeTurns& turns)
      : experiment_(experiment),
        rank_(rank),
        plan_(experiment.plan),
        replica_(make_replica(experiment, rank, open, turns)),
        team_{rank} {
    open_train();
  }

  Replica& replica() override { return replica_; }

  double compute(std::uint64_t step) override {
    const double start = wall_now();
    return compute_on(train_->batch(step), start, step);
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
  double compute_of_task(std::size_t i, std::uint64_t step) override {
    const double start = wall_now();
    return compute_on(task_->batch(i), start, step);
  }
  void on_slice_ready(std::function<void(Slice)> ready) override {
    replica_.on_slice_ready(std::move(ready));
  }
  Halves last() const override { return halves_; }

  Tally tally(Slice part) override {
    return tally_of(experiment_, part, [&](const auto& x) { return replica_.predict(x); });
  }

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
                            {"statistics", {statistics_.data(), 4 * statistics_.size()}}};
    for (const OptimiserState& s : replica_.optimiser().state())
      blobs.push_back({"optimiser-" + s.name, {s.values.data(), s.values.size_bytes()}});
    return blobs;
  }

  void restore(const Checkpoint& checkpoint, int rank) override {
    replica_.random().restore(checkpoint.read(rank, "random"));
    statistics_ = statistics();
    checkpoint.read(rank, "statistics",
                    {reinterpret_cast<std::byte*>(statistics_.data()), 4 * statistics_.size()});
    set_statistics(statistics_);
    for (const OptimiserState& s : replica_.optimiser().state())
      checkpoint.read(rank, "optimiser-" + s.name,
                      {reinterpret_cast<std::byte*>(s.values.data()), s.values.size_bytes()});
  }

  std::vector<std::string> damaged() const override { return experiment_.data.train->damaged(); }

 private:
  static TorchReplicaInput make_replica(const Experiment& experiment, int rank,
                                        const OpenMemory& open, const ComputeTurns& turns) {
    auto network = network_for(experiment, turns);
    check_trainable(*network);
    const ReplicaMemory memory = open(parameter_count(*network));
    Options optimiser = optimiser_options(experiment.config.optimizer);
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

  double compute_on(const Batch& batch, double start, std::uint64_t step) {
    double forward_end = start;
    const ArithmeticWatch watch;
    const double loss = replica_.backward(batch.x, batch.y, [&](const auto& output, const auto& y) {
      torch::Tensor mean = cross_entropy(output, y);
      forward_end = wall_now();
      return mean;
    });
    halves_ = {forward_end - start, wall_now() - forward_end};
    // Other threads keep notes of their own.
    if (watch.alarmed() || !std::isfinite(loss) || torch::get_num_threads() > 1) check(step, loss);
    return loss;
  }

  void open_train() {
    train_.emplace(
        *experiment_.data.train, [this](std::uint64_t step) { return picks(step); },
        experiment_.steps, experiment_.readers.get());
  }
  static Model model_from(Network::Numbers numbers) {
    return {std::move(numbers.parameters), std::move(numbers.buffers)};
  }
  static std::uint64_t variation(int epoch) { return static_cast<std::uint64_t>(epoch) + 1; }
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

  void check(std::uint64_t step, double loss) const {
    const auto bad = replica_.first_bad_gradient();
    if (!bad && std::isfinite(loss)) return;
    throw BadGradient(fmt::format(
        "rank {}, step {}: {} is not finite; lower the learning rate, or look at the data", rank_,
        step, bad ? "the gradient of " + *bad : fmt::format("the loss ({})", loss)));
  }

  const Experiment& experiment_;
  const int rank_;
  Plan plan_;
  TorchReplica replica_;
  Team team_;
  std::optional<Loader> train_;
  std::optional<Loader> task_;
  Halves halves_;
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
  return draw_network(
      experiment.config.seed,
      [&] {
        return make_model(experiment.config.model, {train.shape(), train.classes()});
      },
      {turns.take, turns.give});
}

std::unique_ptr<Learner> make_torch_learner(const Experiment& experiment, int rank,
                                            const OpenMemory& open, const ComputeTurns& turns) {
  torch::set_num_threads(experiment.threads(this_machine().cores));
  return std::make_unique<TorchLearner>(experiment, rank, open, turns);
}

}  // namespace lockstep
