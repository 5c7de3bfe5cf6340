#include "replica/network.h"

#include <fcntl.h>
#include <torch/csrc/jit/serialization/import.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <unordered_set>

#include "core/error.h"
#include "core/whole_file.h"
#include "replica/blocks.h"

namespace lockstep {
namespace {

class NativeNetwork final : public Network {
 public:
  NativeNetwork(std::shared_ptr<torch::nn::Module> module, Forward forward,
                std::vector<Block> blocks)
      : module_(std::move(module)), forward_(std::move(forward)), blocks_(std::move(blocks)) {
    if (blocks_.empty()) return;
    if (const std::string flaw = share_out(*this, blocks_); !flaw.empty())
      throw UsageError("the network's blocks: " + flaw);
  }

  torch::Tensor forward(const torch::Tensor& x) override { return forward_(x); }
  std::vector<Block> blocks() const override { return blocks_; }
  void train(bool on) override { module_->train(on); }

 private:
  template <class List>
  static std::vector<NamedTensor> listed(const List& list) {
    std::vector<NamedTensor> out;
    for (const auto& item : list) out.push_back({item.key(), item.value()});
    return out;
  }
  std::vector<NamedTensor> all_parameters() const override {
    return listed(module_->named_parameters());
  }
  std::vector<NamedTensor> all_buffers() const override { return listed(module_->named_buffers()); }
  void write(const std::string& path) const override {
    torch::serialize::OutputArchive archive;
    module_->save(archive);
    archive.save_to(path);
  }

  std::shared_ptr<torch::nn::Module> module_;  // as LibTorch's own containers hold modules
  Forward forward_;
  std::vector<Block> blocks_;
};

// LibTorch only says that writing failed: the kernel says why, if one tries to write more.
std::string why_not_writable(const std::string& path) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  std::string why;
  const std::vector<char> more(1 << 16);
  if (file < 0 || write(file, more.data(), more.size()) < 0) why = std::strerror(errno);
  if (file >= 0) close(file);
  return why;
}

void append(const torch::Tensor& tensor, std::vector<float>& numbers) {
  const torch::Tensor values = tensor.detach().to(torch::kFloat).contiguous();
  const auto* first = values.data_ptr<float>();
  numbers.insert(numbers.end(), first, first + values.numel());
}

std::vector<NamedTensor> each_once(std::vector<NamedTensor> tensors) {
  std::unordered_set<const c10::TensorImpl*> seen;
  std::erase_if(tensors, [&](const NamedTensor& t) {
    return !seen.insert(t.tensor.unsafeGetTensorImpl()).second;
  });
  return tensors;
}

}  // namespace

std::vector<NamedTensor> trained(std::vector<NamedTensor> tensors) {
  std::erase_if(tensors, [](const NamedTensor& p) { return !p.tensor.requires_grad(); });
  return each_once(std::move(tensors));
}

std::vector<NamedTensor> Network::parameters() const { return trained(all_parameters()); }

std::vector<NamedTensor> Network::buffers() const {
  auto all = each_once(all_buffers());
  std::erase_if(all, [](const NamedTensor& b) {
    return !b.tensor.defined() || b.tensor.scalar_type() != torch::kFloat;
  });
  return all;
}

void Network::save(const std::string& path) const {
  std::error_code absent;
  if (std::filesystem::equivalent(path, origin(), absent))
    throw UsageError(fmt::format(
        "'{}' is the network that was given: save the trained copy under another name", path));
  const std::string partial = path + ".partial";
  std::filesystem::remove(partial, absent);  // it may be a link, and LibTorch would follow it
  try {
    write(partial);
    flush_to_disk(partial);
  } catch (const c10::Error& e) {
    const std::string why = why_not_writable(partial);
    std::filesystem::remove(partial, absent);
    throw InternalError(
        fmt::format("can't write {}: {}", path, why.empty() ? e.what_without_backtrace() : why));
  }
  move_into_place(partial, path);
}

Network::Numbers Network::numbers() const {
  const auto read = [](const std::vector<NamedTensor>& listed) {
    std::vector<float> numbers;
    for (const NamedTensor& own : listed) append(own.tensor, numbers);
    return numbers;
  };
  return {read(parameters()), read(buffers())};
}

Network::Numbers Network::read_saved(const std::string& path) const try {
  const torch::jit::Module file = torch::jit::load(path, torch::kCPU);
  std::map<std::string, torch::Tensor> by_name;
  for (const auto& item : file.named_parameters()) by_name.emplace(item.name, item.value);
  for (const auto& item : file.named_buffers()) by_name.emplace(item.name, item.value);
  const auto read = [&](const std::vector<NamedTensor>& listed) {
    std::vector<float> numbers;
    for (const NamedTensor& own : listed) {
      const auto found = by_name.find(own.name);
      if (found != by_name.end()) append(found->second, numbers);
    }
    return numbers;
  };
  return {read(parameters()), read(buffers())};
} catch (const c10::Error& e) {
  throw InternalError(fmt::format("can't read {}: {}", path, e.what_without_backtrace()));
}

std::size_t parameter_count(std::span<const NamedTensor> parameters) {
  std::size_t count = 0;
  for (const NamedTensor& p : parameters) count += static_cast<std::size_t>(p.tensor.numel());
  return count;
}
std::size_t parameter_count(const Network& network) {
  return parameter_count(network.parameters());
}

void check_trainable(std::span<const NamedTensor> parameters) {
  if (parameters.empty())
    throw UsageError("the network has no parameters to train (a frozen one has none left)");
  std::unordered_set<const void*> memory;
  for (const auto& [name, tensor] : parameters) {
    if (!tensor.device().is_cpu())
      throw UsageError(fmt::format(
          "parameter '{}' is on {}: training runs on the CPU only; GPU clusters are studied in "
          "simulation",
          name, tensor.device().str()));
    if (tensor.scalar_type() != torch::kFloat)
      throw UsageError(fmt::format("parameter '{}' is of type {}: convert the network to fp32",
                                   name, c10::toString(tensor.scalar_type())));
    if (tensor.layout() != torch::kStrided)
      throw UsageError(fmt::format("parameter '{}' is sparse: only dense ones are trained", name));
    if (tensor.numel() > 0 && !memory.insert(tensor.data_ptr()).second)
      throw UsageError(fmt::format(
          "parameter '{}' shares memory with another: give each its own, or register one tensor "
          "in both places",
          name));
  }
}
void check_trainable(const Network& network) { check_trainable(network.parameters()); }

std::unique_ptr<Network> native_network(std::shared_ptr<torch::nn::Module> module, Forward forward,
                                        std::vector<Block> blocks) {
  return std::make_unique<NativeNetwork>(std::move(module), std::move(forward), std::move(blocks));
}

}  // namespace lockstep
