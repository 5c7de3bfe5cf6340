#include "replica/script_network.h"

#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>

#include <filesystem>

#include "core/error.h"

namespace lockstep {
namespace {

class ScriptNetwork final : public Network {
 public:
  ScriptNetwork(torch::jit::Module module, std::string origin)
      : module_(std::move(module)), origin_(std::move(origin)) {}

  // Interpreted as written. LibTorch's optimiser would rewrite the graph after watching some calls,
  // and its rounding with it: a run's bits would hang on how often the network was called before,
  // and a resumed run would part from the one it continues.
  torch::Tensor forward(const torch::Tensor& x) override {
    const torch::jit::GraphOptimizerEnabledGuard as_written(false);
    return module_.forward({x}).toTensor();
  }
  void train(bool on) override { module_.train(on); }

 private:
  template <class List>
  static std::vector<NamedTensor> listed(const List& list) {
    std::vector<NamedTensor> out;
    for (const auto& item : list) out.push_back({item.name, item.value});
    return out;
  }
  std::vector<NamedTensor> all_parameters() const override {
    return listed(module_.named_parameters());
  }
  std::vector<NamedTensor> all_buffers() const override { return listed(module_.named_buffers()); }

  void write(const std::string& path) const override { module_.save(path); }
  std::string origin() const override { return origin_; }

  torch::jit::Module module_;
  std::string origin_;
};

}  // namespace

std::unique_ptr<Network> load_script(const std::string& path) {
  if (!std::filesystem::is_regular_file(path))
    throw UsageError(fmt::format("no model file '{}'", path));
  try {
    return std::make_unique<ScriptNetwork>(torch::jit::load(path, torch::kCPU), path);
  } catch (const std::exception&) {  // LibTorch's own text is its stack, over many lines
    throw UsageError(fmt::format(
        "'{}' is not a TorchScript file: write one with torch.jit.script(model).save(…)", path));
  }
}

}  // namespace lockstep
