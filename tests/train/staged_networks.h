// Small networks of blocks, and a pipeline whose workers run by turns in one thread.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "core/zero_pages.h"
#include "replica/network_part.h"
#include "replica/tensor_bytes.h"
#include "replica/torch_replica.h"
#include "train/experiment.h"
#include "train/staged_learner.h"

namespace lockstep::testing {

class BlockNetwork final : public Network {
 public:
  torch::Tensor forward(const torch::Tensor& x) override {
    std::map<std::string, torch::Tensor> given;
    torch::Tensor main = x;
    for (const Block& block : blocks_) {
      std::vector<torch::Tensor> taken;
      for (const std::string& name : block.takes) taken.push_back(given.at(name));
      Block::Output made = block.forward(main, taken);
      main = made.main;
      for (std::size_t g = 0; g < block.gives.size(); ++g) given[block.gives[g]] = made.given[g];
    }
    return main;
  }
  std::vector<Block> blocks() const override { return blocks_; }
  void train(bool on) override { root_->train(on); }

  using Run = decltype(Block::forward);
  // The module goes by the block's name.
  void add(Block block, const std::shared_ptr<torch::nn::Module>& module) {
    root_->register_module(block.name, module);
    for (const auto& item : module->named_parameters())
      block.parameters.push_back({block.name + "." + item.key(), item.value()});
    for (const auto& item : module->named_buffers())
      if (item.value().scalar_type() == torch::kFloat)
        block.buffers.push_back({block.name + "." + item.key(), item.value()});
    blocks_.push_back(std::move(block));
  }

 private:
  struct Root : torch::nn::Module {};
  std::vector<NamedTensor> all_parameters() const override { return parameters_of(blocks_); }
  std::vector<NamedTensor> all_buffers() const override { return buffers_of(blocks_); }
  void write(const std::string& path) const override {
    torch::serialize::OutputArchive archive;
    root_->save(archive);
    archive.save_to(path);
  }

  std::shared_ptr<Root> root_ = std::make_shared<Root>();
  std::vector<Block> blocks_;
};

struct Extras {
  bool norm = false;
  double dropout = 0;
};

// A convolution with what may come after it. Batch norm takes a bias away again.
struct Layer : torch::nn::Module {
  Layer(std::int64_t in, std::int64_t out, Extras extras) {
    conv = register_module(
        "conv",
        torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 3).padding(1).bias(!extras.norm)));
    if (extras.norm) norm = register_module("norm", torch::nn::BatchNorm2d(out));
    drop = register_module("drop", torch::nn::Dropout(extras.dropout));
  }
  torch::Tensor forward(torch::Tensor x) {
    x = conv(x);
    if (norm) x = norm(x);
    return drop(torch::relu(x));
  }
  torch::nn::Conv2d conv{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Dropout drop{nullptr};
};

inline constexpr std::int64_t kChannels = 2, kPixels = 8, kClasses = 3;

// Blocks one after another.
inline std::unique_ptr<Network> chain(int blocks, Extras extras = {}) {
  auto network = std::make_unique<BlockNetwork>();
  for (int i = 0; i + 1 < blocks; ++i) {
    auto layer = std::make_shared<Layer>(i == 0 ? kChannels : 4, 4, extras);
    network->add({"layer" + std::to_string(i),
                  {},
                  {},
                  {},
                  {},
                  [layer](const torch::Tensor& x, std::span<const torch::Tensor>) {
                    return Block::Output{layer->forward(x), {}};
                  }},
                 layer);
  }
  torch::nn::Linear head(4 * kPixels * kPixels, kClasses);
  network->add({"head",
                {},
                {},
                {},
                {},
                [head](const torch::Tensor& x, std::span<const torch::Tensor>) mutable {
                  return Block::Output{head(x.flatten(1)), {}};
                }},
               head.ptr());
  return network;
}

// Down and up again as a U-Net, in six blocks: what comes from the first goes to two later ones,
// and the bottom only turns what it is handed.
inline std::unique_ptr<Network> tiny_unet(Extras extras = {}) {
  auto network = std::make_unique<BlockNetwork>();
  const auto down = [&](const std::string& name, std::int64_t in, std::int64_t out,
                        const std::string& skip) {
    auto layer = std::make_shared<Layer>(in, out, extras);
    network->add({name,
                  {},
                  {skip},
                  {},
                  {},
                  [layer](const torch::Tensor& x, std::span<const torch::Tensor>) {
                    const torch::Tensor y = layer->forward(x);
                    return Block::Output{torch::avg_pool2d(y, 2), {y}};
                  }},
                 layer);
  };
  const auto up = [&](const std::string& name, std::int64_t in, std::int64_t out,
                      const std::string& skip) {
    auto layer = std::make_shared<Layer>(in, out, extras);
    network->add({name,
                  {skip},
                  {},
                  {},
                  {},
                  [layer](const torch::Tensor& x, std::span<const torch::Tensor> taken) {
                    const torch::Tensor large = torch::upsample_nearest2d(
                        x, c10::IntArrayRef{2 * x.size(2), 2 * x.size(3)});
                    return Block::Output{layer->forward(torch::cat({large, taken[0]}, 1)), {}};
                  }},
                 layer);
  };
  down("down0", kChannels, 4, "fine");
  down("down1", 4, 6, "coarse");
  auto bottom = std::make_shared<Layer>(6, 6, extras);
  network->add({"bottom",
                {},
                {},
                {},
                {},
                [bottom](const torch::Tensor& x, std::span<const torch::Tensor>) {
                  return Block::Output{bottom->forward(x).transpose(2, 3), {}};
                }},
               bottom);
  up("up1", 12, 5, "coarse");
  up("up0", 9, 4, "fine");
  torch::nn::Linear head(8, kClasses);
  network->add({"head",
                {"fine"},
                {},
                {},
                {},
                [head](const torch::Tensor& x, std::span<const torch::Tensor> taken) mutable {
                  const torch::Tensor both = torch::cat({x, taken[0]}, 1);
                  return Block::Output{head(both.mean(c10::IntArrayRef{2, 3})), {}};
                }},
               head.ptr());
  return network;
}

using MakeNetwork = std::function<std::unique_ptr<Network>()>;

// The same weights each time.
inline std::unique_ptr<Network> drawn(const MakeNetwork& make) { return draw_network(7, make); }

// One pipeline that reads `batch` samples a step.
inline Experiment staged_experiment(std::size_t batch, std::size_t samples = 100) {
  TrainConfig config;
  config.model = "mlp:width=4,depth=1";
  config.data = fmt::format("synthetic:shape={}x{}x{},classes={},samples={},test_samples=23",
                            kChannels, kPixels, kPixels, kClasses, samples);
  config.batch = batch;
  config.epochs = 2;
  config.workers = 1;
  config.optimizer = "sgd:lr=0.1,momentum=0.5";
  config.threads = 1;
  complete(config);
  check(config);
  return Experiment(config, {});
}

// `blocks` over as many stages as evenly as can be.
inline BlockCounts evenly(int blocks, int stages) {
  BlockCounts counts;
  for (int stage = 0; stage < stages; ++stage)
    counts.push_back(static_cast<int>(chunk(blocks, stages, stage).count));
  return counts;
}

using Named = std::map<std::string, std::vector<float>>;

class StagedPipeline {
 public:
  StagedPipeline(const Experiment& experiment, const std::string& schedule, int workers,
                 const MakeNetwork& make, const BlockCounts& counts = {})
      : schedule_(pipeline_schedule(schedule, workers)),
        counts_(counts.empty()
                    ? evenly(static_cast<int>(drawn(make)->blocks().size()), schedule_.stages)
                    : counts) {
    for (int worker = 0; worker < workers; ++worker)
      learners_.push_back(make_staged_learner(
          experiment, worker, {schedule_, counts_, 0, worker}, drawn(make),
          [&](std::size_t count) {
            weights_.push_back(std::make_unique<ZeroPages>(count * sizeof(float)));
            gradients_.push_back(std::make_unique<ZeroPages>(count * sizeof(float)));
            return ReplicaMemory{weights_.back()->bytes(), gradients_.back()->bytes()};
          },
          {}));
  }

  const PipelineSchedule& schedule() const { return schedule_; }
  const BlockCounts& counts() const { return counts_; }
  int workers() const { return schedule_.workers; }
  Learner& learner(int worker) { return *learners_.at(worker); }

  // Called before and after each action.
  std::function<void(int worker, const Action&)> before, after;

  // Returns the mean loss.
  double step(std::uint64_t number) {
    for (const auto& learner : learners_) learner->open_step(number);
    run();
    double loss = 0;
    for (const auto& learner : learners_) loss += learner->end_step();
    return loss;
  }
  Tally test(Slice part) {
    for (const auto& learner : learners_) learner->open_test(part);
    run();
    Tally all;
    for (const auto& learner : learners_) {
      const Tally tally = learner->end_test();
      if (!tally.samples.empty()) all = tally;
    }
    return all;
  }

  // What a strategy does: the mean over the workers that hold the same stages.
  void average() {
    for (int worker = 0; worker < workers(); ++worker) {
      const int other = workers() - 1 - worker;
      if (schedule_.placement != StagePlacement::gems || worker >= other) continue;
      const Values mine = learner(worker).replica().gradients();
      const Values theirs = learner(other).replica().gradients();
      float *a = floats(mine), *b = floats(theirs);
      ASSERT_EQ(mine.count(), theirs.count());
      for (std::size_t i = 0; i < mine.count(); ++i) a[i] = b[i] = (a[i] + b[i]) / 2;
    }
  }
  void apply(std::uint64_t number) {
    for (const auto& learner : learners_) learner->replica().apply_gradients(number);
  }
  // A whole step: gradients by name are those before the weights change.
  double train(std::uint64_t number, Named& gradients) {
    const double loss = step(number);
    average();
    gradients = this->gradients();
    apply(number);
    return loss;
  }

  Named gradients() {
    return named([](Replica& r) { return r.gradients(); });
  }
  Named weights() {
    return named([](Replica& r) { return r.weights(); });
  }
  // Of the stages, as all workers that hold one have it on average.
  std::vector<Model> models() {
    std::vector<Model> all;
    for (const auto& learner : learners_) all.push_back(learner->held_by_network());
    return all;
  }

  // By worker: the most bytes that its tensors took in a step, as far as they came after its begin.
  // Needs count_tensor_bytes().
  std::vector<std::uint64_t> peak_bytes() const { return peak_bytes_; }

  static float* floats(Values values) { return reinterpret_cast<float*>(values.bytes().data); }

 private:
  using Address = std::tuple<int, int, int, bool, int>;  // worker, link, replica, back, micro
  static Address address_of(int to, const Passage& passage) {
    return {to, passage.link, passage.action.replica, passage.action.pass != StagePass::forward,
            passage.action.micro};
  }

  // Each worker takes its next action when what it needs has been sent. What was sent is read as
  // late as that, from where it lies, and then let go.
  void run() {
    std::vector<std::vector<Action>> left;
    for (const auto& learner : learners_) left.push_back(learner->actions());
    std::vector<std::size_t> done(left.size());
    std::map<Address, std::pair<Passage, int>> sent;
    bytes_.assign(left.size(), 0);
    peak_bytes_.assign(left.size(), 0);
    for (bool goes_on = true; goes_on;) {
      goes_on = false;
      for (int worker = 0; worker < workers(); ++worker) {
        if (done[worker] == left[worker].size()) continue;
        const Action& action = left[worker][done[worker]];
        std::vector<Passage> needed;
        counted(worker, [&] { needed = learner(worker).needs(action); });
        if (!std::ranges::all_of(
                needed, [&](const Passage& one) { return sent.contains(address_of(worker, one)); }))
          continue;
        for (const Passage& one : needed) {
          auto message = sent.extract(address_of(worker, one));
          const Bytes from = message.mapped().first.numbers.bytes(), into = one.numbers.bytes();
          ASSERT_EQ(message.mapped().second, one.worker);
          ASSERT_EQ(from.size, into.size);
          std::memcpy(into.data, from.data, from.size);
          counted(one.worker, [&] { message = {}; });
        }
        if (before) before(worker, action);
        std::vector<Passage> made;
        counted(worker, [&] { made = learner(worker).run(action); });
        for (const Passage& one : made) {
          ASSERT_NE(one.worker, worker);
          ASSERT_TRUE(sent.emplace(address_of(one.worker, one), std::pair{one, worker}).second);
        }
        if (after) after(worker, action);
        ++done[worker];
        goes_on = true;
      }
    }
    for (int worker = 0; worker < workers(); ++worker)
      ASSERT_EQ(done[worker], left[worker].size()) << "worker " << worker << " waits for ever";
    ASSERT_TRUE(sent.empty()) << "something was sent that nobody needs";
  }

  // Tensors that come and go meanwhile are that worker's.
  template <class F>
  void counted(int worker, F&& f) {
    const std::uint64_t before = live_tensor_bytes();
    f();
    bytes_[worker] += live_tensor_bytes() - before;
    peak_bytes_[worker] = std::max(peak_bytes_[worker], bytes_[worker]);
  }

  template <class F>
  Named named(F&& values_of) {
    Named all;
    for (const auto& learner : learners_) {
      const float* numbers = floats(values_of(learner->replica()));
      for (const Parameter& p : learner->replica().parameters()) {
        const std::vector<float> own(numbers + p.slice.begin, numbers + p.slice.end());
        const auto [found, fresh] = all.emplace(p.name, own);
        EXPECT_EQ(found->second, own) << p.name << " differs between replicas";
      }
    }
    return all;
  }

  PipelineSchedule schedule_;
  BlockCounts counts_;
  std::vector<std::unique_ptr<ZeroPages>> weights_, gradients_;
  std::vector<std::unique_ptr<Learner>> learners_;
  std::vector<std::uint64_t> bytes_, peak_bytes_;
};

// Each number is within `bound` of the largest of its tensor.
inline void expect_near(const Named& found, const Named& expected, double bound) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, numbers] : expected) {
    const std::vector<float>& own = found.at(name);
    ASSERT_EQ(own.size(), numbers.size());
    float largest = 0;
    for (const float number : numbers) largest = std::max(largest, std::abs(number));
    for (std::size_t i = 0; i < numbers.size(); ++i)
      ASSERT_NEAR(own[i], numbers[i], bound * largest) << name << "[" << i << "]";
  }
}

}  // namespace lockstep::testing
