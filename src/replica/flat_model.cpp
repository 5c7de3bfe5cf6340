#include "replica/flat_model.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/error.h"

namespace lockstep {
namespace {

float* checked(Bytes memory, std::size_t count) {
  constexpr std::uintptr_t kAlignment = 64;
  if (memory.data == nullptr || memory.size != count * sizeof(float) ||
      reinterpret_cast<std::uintptr_t>(memory.data) % kAlignment != 0)
    throw InternalError(
        fmt::format("{} parameters in {} bytes at {}", count, memory.size, fmt::ptr(memory.data)));
  return reinterpret_cast<float*>(memory.data);
}

}  // namespace

FlatModel::FlatModel(Network& network, Bytes weights, Bytes gradients)
    : FlatModel(network.parameters(), weights, gradients) {
  for (const NamedTensor& buffer : network.buffers()) buffers_.push_back(buffer.tensor);
}

FlatModel::FlatModel(std::span<const NamedTensor> parameters, Bytes weights, Bytes gradients)
    : weights_(checked(weights, parameter_count(parameters))),
      gradients_(checked(gradients, parameter_count(parameters))) {
  check_trainable(parameters);
  const torch::NoGradGuard no_grad;
  std::memset(gradients.data, 0, gradients.size);
  for (const auto& [name, tensor] : parameters) {
    const auto shape = tensor.sizes().vec();
    // A tensor with a storage of its own each: as slices of one tensor they would all be saved as
    // the whole of it, and copied as its first.
    const torch::Tensor view = torch::from_blob(weights_ + count_, shape, torch::kFloat);
    view.copy_(tensor);
    tensor.set_data(view);
    tensor.mutable_grad() = torch::from_blob(gradients_ + count_, shape, torch::kFloat);
    const auto size = static_cast<std::size_t>(tensor.numel());
    parameters_.push_back({name, {count_, size}, static_cast<int>(shape.size())});
    tensors_.push_back(tensor);
    count_ += size;
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
