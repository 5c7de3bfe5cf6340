// The replica that computes: a LibTorch network whose parameters lie in the caller's memory, its
// optimiser and its learning rates. Belongs to one thread.
#pragma once

#include <ATen/CPUGeneratorImpl.h>

#include <cstdint>
#include <optional>
#include <string>

#include "core/replica.h"
#include "replica/backward_hooks.h"
#include "replica/optimiser.h"
#include "replica/schedule.h"

namespace lockstep {

// One rank's own random numbers for LibTorch, whose default generator is one for the whole process:
// ranks that are threads or simulated would draw from it in the order they happen to run.
class RandomStream {
 public:
  // As core's Rng: the same three give the same numbers.
  RandomStream(std::uint64_t seed, int rank, std::uint64_t purpose);

  // While one of these lives, whatever LibTorch draws comes from the stream; then the default
  // generator is as it was. One at a time in a process. Takes about a microsecond.
  class Installed {
   public:
    explicit Installed(RandomStream& stream) : stream_(stream) { stream_.exchange(); }
    ~Installed() { stream_.exchange(); }
    Installed(const Installed&) = delete;
    Installed& operator=(const Installed&) = delete;

   private:
    RandomStream& stream_;
  };

  // For checkpoints, as bytes. REQUIRES: not installed.
  std::string state() const;
  void restore(const std::string& state);  // UsageError if it isn't one

 private:
  void exchange();

  at::Generator own_;
};

// Keeps replicas of one process that run on different threads apart while they compute, since
// LibTorch's generator is the process's. Empty where ranks are processes or simulated.
struct Turns {
  std::function<void()> take, give;
};
class Turn {
 public:
  explicit Turn(const Turns& turns) : turns_(turns) {
    if (turns_.take) turns_.take();
  }
  ~Turn() {
    if (turns_.give) turns_.give();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  const Turns& turns_;
};

// The network that `make` builds, with the initial weights of the run: the same on every rank.
std::unique_ptr<Network> draw_network(std::uint64_t seed,
                                      const std::function<std::unique_ptr<Network>()>& make,
                                      const Turns& = {});

struct TorchReplicaInput {
  std::unique_ptr<Network> network;
  Bytes weights, gradients;  // parameter_count() floats each; the caller's, and outlive the replica
  Options optimiser;         // of optimiser_options()
  Schedule schedule;
  std::uint64_t seed = 0;
  int rank = 0;
  Turns turns = {};
};

class TorchReplica final : public Replica {
 public:
  explicit TorchReplica(TorchReplicaInput);
  TorchReplica(const TorchReplica&) = delete;
  TorchReplica& operator=(const TorchReplica&) = delete;

  Values weights() override { return {model_.weights(), model_.count(), Type::fp32}; }
  Values gradients() override;
  std::span<const Parameter> parameters() const override { return model_.parameters(); }
  using Replica::apply_gradients;
  void apply_gradients(std::uint64_t step, Slice part, std::uint64_t updates,
                       double share) override;
  double learning_rate(std::uint64_t step) const override { return schedule_.at(step); }
  void forget() override;
  bool needs_whole_layers() const override { return optimiser_->needs_whole_layers(); }

  // The mean loss over the batch, given the network's output and `y`.
  using Loss = std::function<torch::Tensor(const torch::Tensor& output, const torch::Tensor& y)>;
  // A step: begin() sets the gradients to zero; forward() computes a batch's loss, and backward()
  // of that loss adds to the gradients; end() ends the step.
  void begin();
  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& y, const Loss&);
  void backward(const torch::Tensor& loss);
  void end();
  // The whole step on one batch: returns its loss. An empty batch has gradients and loss of zero.
  double backward(const torch::Tensor& x, const torch::Tensor& y, const Loss&);
  // From then on, called during every backward as BackwardHooks::Ready says; all parts have been
  // reported when end() returns.
  void on_slice_ready(BackwardHooks::Ready);
  // While off, a backward reports nothing: another one of the step will add to the same gradients.
  void tell_ready(bool on);
  // The output as in use: no dropout, batch norm by its statistics, no gradients.
  torch::Tensor predict(const torch::Tensor& x);

  // Dropout and batch norm behave as in training, or as in use.
  void set_training(bool on);

  // Runs `f` with this rank's random numbers in LibTorch. `f` must not block: in simulation another
  // rank would run with them.
  template <class F>
  auto compute(F&& f) {
    const Turn turn(turns_);
    const RandomStream::Installed installed(random_);
    return f();
  }

  // The first parameter, if any, whose gradient has a NaN or an infinity in it; in that part.
  std::optional<std::string> first_bad_gradient() const {
    return first_bad_gradient({0, model_.count()});
  }
  std::optional<std::string> first_bad_gradient(Slice part) const;

  Network& network() { return *network_; }
  FlatModel& model() { return model_; }
  Optimiser& optimiser() { return *optimiser_; }
  RandomStream& random() { return random_; }
  const Schedule& schedule() const { return schedule_; }

 private:
  void zero_gradients();

  std::unique_ptr<Network> network_;
  std::optional<bool> training_;  // what the network was last set to
  FlatModel model_;
  std::unique_ptr<Optimiser> optimiser_;
  Schedule schedule_;
  RandomStream random_;
  Turns turns_;
  std::optional<BackwardHooks> hooks_;
  // Parts of the gradients that the optimiser left zero, all in this step.
  std::vector<Slice> zero_;
  std::uint64_t zero_step_ = 0;
  // The optimiser counts its steps from here: the first after it last forgot.
  std::uint64_t origin_ = 0;
  bool forgot_ = false;
};

}  // namespace lockstep
