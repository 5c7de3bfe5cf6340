#include "lockstep/averager.h"

#include <array>
#include <optional>
#include <utility>

#include "collectives/all_reduce.h"
#include "collectives/broadcast.h"
#include "replica/backward_hooks.h"
#include "strategies/mean.h"
#include "transport/channels.h"

namespace lockstep {
namespace {

constexpr std::string_view kStrategy = "all-reduce";  // what a loop with this does
constexpr Tag kAgreement = channels::kAveragerAgreement, kInitial = channels::kAveragerWeights;

std::vector<NamedTensor> numbered(const std::vector<torch::Tensor>& tensors) {
  std::vector<NamedTensor> named;
  for (const torch::Tensor& tensor : tensors) {
    const std::string shape = fmt::format("{}", fmt::join(tensor.sizes().vec(), "x"));
    named.push_back({fmt::format("#{} ({})", named.size(), shape), tensor});
  }
  return named;
}

// Two networks that differ in any shape differ in this, but for one chance in 2^63.
std::int64_t fingerprint(std::span<const NamedTensor> parameters) {
  std::uint64_t hash = parameters.size();
  for (const auto& [name, tensor] : parameters) {
    hash = mixed(hash ^ static_cast<std::uint64_t>(tensor.dim()));
    for (const std::int64_t size : tensor.sizes())
      hash = mixed(hash ^ static_cast<std::uint64_t>(size));
  }
  return static_cast<std::int64_t>(hash >> 1);
}

void check_agreement(Transport& peers, std::span<const NamedTensor> parameters) {
  const std::int64_t mine = fingerprint(parameters);
  std::array<std::int64_t, 2> least{mine, -mine};
  auto_all_reduce(peers, kAgreement, {least.data(), least.size(), Type::int64, Op::min});
  if (least[0] != -least[1])
    throw UsageError(
        fmt::format("the ranks' networks differ; that of rank {} has {} parameters in {} tensors: "
                    "build the same network on every rank",
                    peers.rank(), parameter_count(parameters), parameters.size()));
}

bool lies_at(const torch::Tensor& tensor, const float* place) {
  return tensor.defined() && tensor.is_contiguous() && tensor.data_ptr() == place;
}

}  // namespace

class Averager::Parts {
 public:
  Parts(Rank& rank, const std::vector<NamedTensor>& parameters, const Carriage& carriage)
      : peers_(rank.peers),
        weights_(peers_.open_window(parameter_count(parameters) * size_of(Type::fp32))),
        gradients_(peers_.open_window(parameter_count(parameters) * size_of(Type::fp32))),
        model_(parameters, weights_->mine(), gradients_->mine()),
        each_once_(rank.size(), 1) {
    Crew crew{
        .rank = rank, .workers = rank.size(), .collective = all_reduce_named(carriage.collective)};
    mean_of_weights_ = make_mean(crew, Purpose::weights);
    mean_of_weights_->begin(all(model_.weights()), model_.parameters());
    carry(carriage, kStrategy, false, {}, crew);
    mean_of_gradients_ = make_mean(crew, Purpose::gradients);
    mean_of_gradients_->begin(all(model_.gradients()), model_.parameters());
    if (mean_of_gradients_->begins_early())
      hooks_.emplace(model_, [this](Slice part) {
        if (is_last_) mean_of_gradients_->ready(part);
      });
  }

  // Jobs of an exchange that was not finished may still write gradients: they end with their mean.
  ~Parts() {
    hooks_.reset();
    mean_of_gradients_.reset();
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < model_.tensors().size(); ++i) {
      const torch::Tensor& tensor = model_.tensors()[i];
      if (lies_at(tensor.grad(), gradient(i))) tensor.mutable_grad() = tensor.grad().clone();
      if (lies_at(tensor, weight(i))) tensor.set_data(tensor.clone());
    }
  }

  void start_equal() { broadcast(peers_, kInitial, all(model_.weights())); }

  void last_backward() {
    check_alive();
    if (!hooks_ || is_last_) return;
    is_last_ = true;
    hooks_->forget();  // what earlier backwards told
    mean_of_gradients_->open({.number = calls_, .samples = each_once_}, each_once_);
  }

  void average_gradients() {
    check_alive();
    // Until all is done: what is under way and is not finished can't be begun again.
    is_dead_ = std::exchange(is_last_, false);
    if (is_dead_ && hooks_->is_stale())
      throw UsageError(
          "a second backward came after last_backward(), and changed gradients that were already "
          "on their way: call last_backward() right before the last backward of the step");
    for (std::size_t i = 0; i < model_.tensors().size(); ++i)
      if (!lies_at(model_.tensors()[i].grad(), gradient(i)))
        throw UsageError(
            fmt::format("the gradient of parameter {} was dropped or replaced, so it would not be "
                        "averaged: zero it in place, as zero_grad(false) does",
                        model_.parameters()[i].name));
    average(*mean_of_gradients_);
  }

  void average_weights() {
    check_alive();
    for (std::size_t i = 0; i < model_.tensors().size(); ++i)
      if (!lies_at(model_.tensors()[i], weight(i)))
        throw UsageError(
            fmt::format("parameter {} was given other memory, so it would not be averaged: load or "
                        "convert the network before making its Averager",
                        model_.parameters()[i].name));
    average(*mean_of_weights_);
  }

 private:
  float* weight(std::size_t i) const {
    return model_.weights() + model_.parameters()[i].slice.begin;
  }
  float* gradient(std::size_t i) const {
    return model_.gradients() + model_.parameters()[i].slice.begin;
  }
  Values all(float* numbers) const { return {numbers, model_.count(), Type::fp32}; }

  void check_alive() const {
    if (is_dead_)
      throw UsageError(
          "an average of this Averager has failed before it was complete, and ranks may differ: "
          "end the program, or make another Averager on every rank");
  }
  void average(Mean& mean) {
    is_dead_ = true;
    mean.run({.number = calls_++, .samples = each_once_}, each_once_);
    is_dead_ = false;
  }

  Transport& peers_;
  std::unique_ptr<Window> weights_, gradients_;
  FlatModel model_;
  const std::vector<std::size_t> each_once_;
  std::unique_ptr<Mean> mean_of_weights_, mean_of_gradients_;
  std::optional<BackwardHooks> hooks_;  // where the exchange can begin in backward
  bool is_last_ = false;                // the backward that is to come or runs
  bool is_dead_ = false;                // an average was not completed
  std::uint64_t calls_ = 0;
};

Averager::Averager(Rank& rank, const std::vector<torch::Tensor>& parameters,
                   std::string_view collective)
    : Averager(rank, parameters, Carriage{.collective = std::string(collective)}) {}

Averager::Averager(Rank& rank, const std::vector<torch::Tensor>& parameters,
                   const Carriage& carriage) {
  all_reduce_named(carriage.collective);
  check_carriage(carriage, kStrategy, {});
  if (takes_over_sgd(carriage))
    throw UsageError(fmt::format(
        "'{}' repeats the momentum of the optimiser, which is the loop's own: compress by another",
        carriage.compress));
  const auto those_trained = trained(numbered(parameters));
  check_trainable(those_trained);
  check_agreement(rank.peers, those_trained);
  parts_ = std::make_unique<Parts>(rank, those_trained, carriage);
  parts_->start_equal();
}

Averager::~Averager() = default;

void Averager::last_backward() { parts_->last_backward(); }

void Averager::average_gradients() { parts_->average_gradients(); }

void Averager::average_weights() { parts_->average_weights(); }

}  // namespace lockstep
