#include "replica/torch_replica.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "core/kernels.h"
#include "core/rng.h"

namespace lockstep {
namespace {

// With the normals that were drawn in pairs and wait for their turn.
struct State {
  at::mt19937 engine;
  c10::optional<float> next_float;
  c10::optional<double> next_double;
};

State state_of(at::CPUGeneratorImpl& generator) {
  return {generator.engine(), generator.next_float_normal_sample(),
          generator.next_double_normal_sample()};
}

void set_state(at::CPUGeneratorImpl& generator, const State& state) {
  generator.set_engine(state.engine);
  generator.set_next_float_normal_sample(state.next_float);
  generator.set_next_double_normal_sample(state.next_double);
}

}  // namespace

RandomStream::RandomStream(std::uint64_t seed, int rank, std::uint64_t purpose)
    : own_(at::detail::createCPUGenerator(Rng(seed, rank, purpose)())) {}

void RandomStream::exchange() {
  auto& own = *at::check_generator<at::CPUGeneratorImpl>(own_);
  auto& shared = *at::check_generator<at::CPUGeneratorImpl>(at::detail::getDefaultCPUGenerator());
  const State before = state_of(shared);
  set_state(shared, state_of(own));
  set_state(own, before);
}

std::string RandomStream::state() const {
  const at::Tensor bytes = own_.get_state();
  return {static_cast<const char*>(bytes.data_ptr()), static_cast<std::size_t>(bytes.numel())};
}

void RandomStream::restore(const std::string& state) {
  at::Tensor bytes = at::empty(static_cast<std::int64_t>(state.size()), at::kByte);
  std::memcpy(bytes.data_ptr(), state.data(), state.size());
  try {
    own_.set_state(bytes);
  } catch (const c10::Error&) {
    throw UsageError("the saved state of LibTorch's random numbers is damaged");
  }
}

std::unique_ptr<Network> draw_network(std::uint64_t seed,
                                      const std::function<std::unique_ptr<Network>()>& make,
                                      const Turns& turns) {
  RandomStream initial(seed, 0, purpose_of("initial weights"));
  const Turn turn(turns);
  const RandomStream::Installed installed(initial);
  return make();
}

TorchReplica::TorchReplica(TorchReplicaInput input)
    : network_(std::move(input.network)),
      model_(*network_, input.weights, input.gradients),
      optimiser_(make_optimiser(input.optimiser, model_)),
      schedule_(std::move(input.schedule)),
      random_(input.seed, input.rank, purpose_of("network")),
      turns_(std::move(input.turns)),
      zero_{{0, model_.count()}} {}

Values TorchReplica::gradients() {
  // Until all is applied the caller is at work on the rest; from then on it may write anywhere.
  std::size_t zeros = 0;
  for (Slice part : zero_) zeros += part.count;
  if (zeros == model_.count()) zero_.clear();
  return {model_.gradients(), model_.count(), Type::fp32};
}

void TorchReplica::apply_gradients(std::uint64_t step, Slice part, std::uint64_t updates,
                                   double share) {
  if (step != std::exchange(zero_step_, step)) zero_.clear();
  if (std::exchange(forgot_, false)) origin_ = updates;
  const bool blind = optimiser_->ignores_scale();
  if (share != 1 && !blind) scale({model_.gradients() + part.begin, part.count, Type::fp32}, share);
  optimiser_->step(schedule_.at(step) * (blind ? share : 1), updates - origin_, part);
  zero_.push_back(part);
}

void TorchReplica::forget() {
  for (const OptimiserState& s : optimiser_->state()) std::ranges::fill(s.values, 0.0f);
  forgot_ = true;
}

void TorchReplica::zero_gradients() {
  std::ranges::sort(zero_, {}, &Slice::begin);
  std::size_t from = 0;
  for (Slice part : zero_) {
    std::fill(model_.gradients() + from, model_.gradients() + part.begin, 0.0f);
    from = part.end();
  }
  std::fill(model_.gradients() + from, model_.gradients() + model_.count(), 0.0f);
  zero_.clear();
}

void TorchReplica::begin() {
  zero_gradients();
  set_training(true);
  if (hooks_) hooks_->forget();
}

torch::Tensor TorchReplica::forward(const torch::Tensor& x, const torch::Tensor& y,
                                    const Loss& loss) {
  return compute([&] { return loss(network_->forward(x), y); });
}

void TorchReplica::backward(const torch::Tensor& loss) {
  compute([&] { loss.backward(); });
}

void TorchReplica::end() {
  if (hooks_) hooks_->flush();
}

double TorchReplica::backward(const torch::Tensor& x, const torch::Tensor& y, const Loss& loss) {
  begin();
  double mean = 0;
  if (x.size(0) > 0) {
    const torch::Tensor value = forward(x, y, loss);
    backward(value);
    mean = value.item<double>();
  }
  end();
  return mean;
}

void TorchReplica::on_slice_ready(BackwardHooks::Ready ready) {
  hooks_.reset();
  if (ready) hooks_.emplace(model_, std::move(ready));
}

void TorchReplica::tell_ready(bool on) {
  if (hooks_) hooks_->listen(on);
}

torch::Tensor TorchReplica::predict(const torch::Tensor& x) {
  const torch::NoGradGuard no_grad;
  set_training(false);
  return compute([&] { return network_->forward(x); });
}

void TorchReplica::set_training(bool on) {
  if (training_ != on) network_->train(on);
  training_ = on;
}

std::optional<std::string> TorchReplica::first_bad_gradient(Slice part) const {
  const float* const all = model_.gradients();
  if (kernels().finite(all + part.begin, part.count)) return {};
  const float* const bad = std::find_if_not(all + part.begin, all + part.end(),
                                            [](float value) { return std::isfinite(value); });
  return model_.name_at(static_cast<std::size_t>(bad - all));
}

}  // namespace lockstep
