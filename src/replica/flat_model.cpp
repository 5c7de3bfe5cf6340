#include "replica/flat_model.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/error.h"

namespace lockstep {
namespace {

float* checked(Bytes memory, std::size_t count) {
  constexpr std::uintptr_t kAlignment = 64;
  if (memory.data == nullptr || memory.size != count * size_of(Type::fp32) ||
      reinterpret_cast<std::uintptr_t>(memory.data) % kAlignment != 0)
    throw InternalError(
        fmt::format("{} parameters in {} bytes at {}", count, memory.size, fmt::ptr(memory.data)));
  return reinterpret_cast<float*>(memory.data);
}

// "fc" of "fc.weight"; nothing of a name without dots.
std::string_view layer_in(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? std::string_view{} : name.substr(0, dot);
}

}  // namespace

std::vector<Parameter> laid_out(std::span<const NamedTensor> tensors) {
  std::vector<Parameter> all;
  for (const auto& [name, tensor] : tensors) {
    Parameter next{name, {0, static_cast<std::size_t>(tensor.numel())}, tensor.sizes().vec()};
    if (!all.empty()) {
      const Parameter& last = all.back();
      const bool same = !layer_in(name).empty() && layer_in(name) == layer_in(last.name);
      next.slice.begin = last.slice.end();
      next.layer = last.layer + (same ? 0 : 1);
    }
    all.push_back(std::move(next));
  }
  return all;
}

FlatModel::FlatModel(Network& network, Bytes weights, Bytes gradients)
    : FlatModel(network.parameters(), weights, gradients) {
  for (const NamedTensor& buffer : network.buffers()) buffers_.push_back(buffer.tensor);
}

FlatModel::FlatModel(std::span<const NamedTensor> parameters, Bytes weights, Bytes gradients)
    : count_(parameter_count(parameters)),
      weights_(checked(weights, count_)),
      gradients_(checked(gradients, count_)),
      parameters_(laid_out(parameters)) {
  check_trainable(parameters);
  const torch::NoGradGuard no_grad;
  std::memset(gradients.data, 0, gradients.size);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const torch::Tensor& tensor = parameters[i].tensor;
    const auto& [name, slice, shape, layer] = parameters_[i];
    // A tensor with a storage of its own each: as slices of one tensor they would all be saved as
    // the whole of it, and copied as its first.
    const torch::Tensor view = torch::from_blob(weights_ + slice.begin, shape, torch::kFloat);
    view.copy_(tensor);
    tensor.set_data(view);
    tensor.mutable_grad() = torch::from_blob(gradients_ + slice.begin, shape, torch::kFloat);
    tensors_.push_back(tensor);
  }
}

const std::string& FlatModel::name_at(std::size_t index) const {
  return std::ranges::upper_bound(parameters_, index, std::less<>(),
                                  [](const Parameter& p) { return p.slice.end(); })
      ->name;
}

std::vector<float> FlatModel::statistics() const {
  std::vector<float> out;
  for (const torch::Tensor& buffer : buffers_) {
    const torch::Tensor dense = buffer.contiguous();
    const float* values = dense.data_ptr<float>();
    out.insert(out.end(), values, values + dense.numel());
  }
  return out;
}

void FlatModel::set_statistics(std::span<const float> values) {
  const torch::NoGradGuard no_grad;
  std::size_t expected = 0;
  for (const torch::Tensor& buffer : buffers_) expected += static_cast<std::size_t>(buffer.numel());
  if (values.size() != expected)
    throw InternalError(fmt::format("{} statistics for a network of {}", values.size(), expected));
  const float* from = values.data();
  for (const torch::Tensor& buffer : buffers_) {
    buffer.copy_(torch::from_blob(const_cast<float*>(from), buffer.sizes(), torch::kFloat));
    from += buffer.numel();
  }
}

}  // namespace lockstep
