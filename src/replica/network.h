// Any module behind one small interface: written in C++, or read from a TorchScript file. Belongs
// to one thread.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace lockstep {

struct NamedTensor {
  std::string name;
  torch::Tensor tensor;
};

// A part of a network, which is cut between blocks. A block turns the output of the block before it
// (the first block: the batch) into its own. Beside that it may take tensors by name that earlier
// blocks give, as the long connections of a U-Net do.
struct Block {
  std::string name;
  std::vector<std::string> takes, gives;
  // Its own, in the network's order and under the network's names.
  std::vector<NamedTensor> parameters, buffers;
  struct Output {
    torch::Tensor main;
    std::vector<torch::Tensor> given;  // in the order of `gives`
  };
  // `taken`: in the order of `takes`. Does not write into what it is handed.
  using Run =
      std::function<Output(const torch::Tensor& main, std::span<const torch::Tensor> taken)>;
  Run forward;
};

class Network {
 public:
  virtual ~Network() = default;

  // A batch in, a batch out; `x` has the samples along its first dimension.
  virtual torch::Tensor forward(const torch::Tensor& x) = 0;
  // The network as a list of blocks that compute, one after another, what forward() does. None: it
  // can't be cut.
  virtual std::vector<Block> blocks() const { return {}; }
  // Those that are trained, in the order of registration; one that is used in two places is
  // listed once, under its first name.
  std::vector<NamedTensor> parameters() const;
  // What training leaves behind beside the parameters: the fp32 buffers (batch-norm statistics).
  std::vector<NamedTensor> buffers() const;
  // Dropout and batch norm behave as in training, or as in use.
  virtual void train(bool on) = 0;
  // Writes a file that torch.jit.load opens, under another name first, so that `path` never holds
  // half a network. One of C++ is an archive of parameters and buffers by name; one of TorchScript
  // is a whole network again. UsageError if `path` is the file that the network came from.
  void save(const std::string& path) const;
  // Of parameters() and of buffers(), each in their order as one run.
  struct Numbers {
    std::vector<float> parameters, buffers;
  };
  // What the network computes with.
  Numbers numbers() const;
  // What a file that save() wrote holds; what it lacks is left out. InternalError if it can't be
  // read.
  Numbers read_saved(const std::string& path) const;

 private:
  virtual std::vector<NamedTensor> all_parameters() const = 0;
  virtual std::vector<NamedTensor> all_buffers() const = 0;
  virtual void write(const std::string& path) const = 0;
  virtual std::string origin() const { return {}; }  // the file it came from
};

// Those of them that are trained, each once, under its first name.
std::vector<NamedTensor> trained(std::vector<NamedTensor>);
std::size_t parameter_count(std::span<const NamedTensor>);
std::size_t parameter_count(const Network&);
// UsageError, naming the parameter, unless all are fp32 on the CPU, dense, and there is one.
void check_trainable(std::span<const NamedTensor>);
void check_trainable(const Network&);

using Forward = std::function<torch::Tensor(const torch::Tensor&)>;
// `blocks`: see Network::blocks(). What they hold may go by any names: blocks() gives it the
// network's. UsageError unless each parameter and buffer is held by exactly one of them, and what a
// block takes was given before.
std::unique_ptr<Network> native_network(std::shared_ptr<torch::nn::Module>, Forward,
                                        std::vector<Block> blocks = {});
// Blocks come from its children, see blocks.h, unless two of them share a parameter: then it can't
// be cut. REQUIRES for a cut: no child with parameters writes into its input.
std::unique_ptr<Network> sequential_network(std::shared_ptr<torch::nn::SequentialImpl>);

// Any C++ module with Tensor forward(Tensor), or a holder of one (TORCH_MODULE). Of these a
// Sequential can be cut; for others see network_of_blocks() in blocks.h.
template <class Module>
std::unique_ptr<Network> network_of(std::shared_ptr<Module> module) {
  if constexpr (std::is_same_v<Module, torch::nn::SequentialImpl>) {
    return sequential_network(std::move(module));
  } else {
    Module& m = *module;
    return native_network(std::move(module), [&m](const torch::Tensor& x) { return m.forward(x); });
  }
}
template <class Module>
std::unique_ptr<Network> network_of(const torch::nn::ModuleHolder<Module>& holder) {
  return network_of(holder.ptr());
}

// A network that somebody else wrote: TorchScript, as torch.jit.save leaves it. Our own copy of
// what the file holds; the file itself is never written, also not by save(). It can be cut if its
// forward() does nothing but call its children one after another, each with the tensor that the one
// before returned; the children are looked into likewise. UsageError if it cannot be read or is no
// TorchScript.
std::unique_ptr<Network> load_script(const std::string& path);

}  // namespace lockstep
