#include "replica/network_part.h"

#include <map>
#include <unordered_set>

#include "core/error.h"

namespace lockstep {
namespace {

// A folder of an archive, and what is in it: "features.0.weight" is `weight` in `0` in `features`.
struct Folder {
  std::map<std::string, Folder> folders;
  std::map<std::string, torch::Tensor> parameters, buffers;

  Folder& at(const std::string& name, std::string& last) {
    Folder* folder = this;
    std::size_t from = 0;
    for (std::size_t dot; (dot = name.find('.', from)) != std::string::npos; from = dot + 1)
      folder = &folder->folders[name.substr(from, dot - from)];
    last = name.substr(from);
    return *folder;
  }
  void write(torch::serialize::OutputArchive& archive) const {
    for (const auto& [name, tensor] : parameters) archive.write(name, tensor);
    for (const auto& [name, tensor] : buffers) archive.write(name, tensor, /*is_buffer=*/true);
    for (const auto& [name, folder] : folders) {
      torch::serialize::OutputArchive inner(archive.compilation_unit());
      folder.write(inner);
      archive.write(name, inner);
    }
  }
};

class NetworkPart final : public Network {
 public:
  NetworkPart(std::unique_ptr<Network> whole, std::vector<Block> kept)
      : whole_(std::move(whole)), kept_(std::move(kept)) {
    std::unordered_set<const c10::TensorImpl*> own;
    for (const auto& held : {parameters_of(kept_), buffers_of(kept_)})
      for (const NamedTensor& one : held) own.insert(one.tensor.unsafeGetTensorImpl());
    const torch::NoGradGuard no_grad;
    for (const auto& all : {whole_->parameters(), whole_->buffers()})
      for (const NamedTensor& one : all)
        if (!own.contains(one.tensor.unsafeGetTensorImpl()))
          one.tensor.set_data(torch::empty({0}, one.tensor.options()));
  }

  torch::Tensor forward(const torch::Tensor&) override {
    throw InternalError("a part of a network is computed block by block");
  }
  std::vector<Block> blocks() const override { return kept_; }
  void train(bool on) override { whole_->train(on); }

 private:
  std::vector<NamedTensor> all_parameters() const override { return parameters_of(kept_); }
  std::vector<NamedTensor> all_buffers() const override { return buffers_of(kept_); }
  void write(const std::string& path) const override {
    Folder root;
    std::string last;
    for (const auto& [name, tensor] : all_parameters())
      root.at(name, last).parameters[last] = tensor;
    for (const auto& [name, tensor] : all_buffers()) root.at(name, last).buffers[last] = tensor;
    torch::serialize::OutputArchive archive;
    root.write(archive);
    archive.save_to(path);
  }

  const std::unique_ptr<Network> whole_;
  const std::vector<Block> kept_;
};

std::vector<NamedTensor> held_by(std::span<const Block> blocks,
                                 std::vector<NamedTensor> Block::*which) {
  std::vector<NamedTensor> all;
  for (const Block& block : blocks)
    all.insert(all.end(), (block.*which).begin(), (block.*which).end());
  return all;
}

}  // namespace

std::vector<NamedTensor> parameters_of(std::span<const Block> blocks) {
  return held_by(blocks, &Block::parameters);
}

std::vector<NamedTensor> buffers_of(std::span<const Block> blocks) {
  return held_by(blocks, &Block::buffers);
}

void fill(std::span<const NamedTensor> tensors, std::span<const float> numbers) {
  const torch::NoGradGuard no_grad;
  const std::size_t expected = parameter_count(tensors);
  if (expected != numbers.size())
    throw InternalError(fmt::format("{} numbers for tensors of {}", numbers.size(), expected));
  float* from = const_cast<float*>(numbers.data());
  for (const NamedTensor& named : tensors) {
    torch::Tensor tensor = named.tensor;
    tensor.copy_(torch::from_blob(from, tensor.sizes(), torch::kFloat));
    from += tensor.numel();
  }
}

std::unique_ptr<Network> network_part(std::unique_ptr<Network> whole, std::vector<Block> kept) {
  return std::make_unique<NetworkPart>(std::move(whole), std::move(kept));
}

}  // namespace lockstep
