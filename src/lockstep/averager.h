// For a LibTorch training loop that exists already: keeps the parameters of each rank's network in
// memory that the ranks average in place, without a copy. Optimiser, schedule, clipping, gradient
// accumulation and the loop stay as they are.
//
// Sample, with Rank& rank, torch::nn::Linear net, torch::optim::SGD optimiser, torch::Tensor loss:
//
//   Averager averager(rank, net->parameters());  // after loading weights, before any backward
//   loss.backward();                             // once, or several times to accumulate
//   averager.average_gradients();                // before clipping
//   torch::nn::utils::clip_grad_norm_(net->parameters(), 1.0);
//   optimiser.step();
//
// Gradients can go in fewer bytes, and while backward still runs. A loop that accumulates says
// which backward is the last.
//
// Sample, with Rank& rank, torch::nn::Linear net, torch::Tensor loss, torch::Tensor last_loss:
//
//   Averager averager(rank, net->parameters(), Carriage{.compress = "fp16", .overlap = "wfbp"});
//   loss.backward();           // any number of these, or none
//   averager.last_backward();  // gradients are final after the backward that follows
//   last_loss.backward();
//   averager.average_gradients();
//
// Gradients must be zeroed in place (Optimizer::zero_grad(), Module::zero_grad(false)), not
// dropped. A parameter that a backward does not use has a gradient of zero, not none.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "strategies/carriage.h"
#include "transport/rank.h"

namespace at {
class Tensor;  // torch::Tensor
}

namespace lockstep {

// Belongs to the rank's thread. Every call is collective: all ranks make it, in the same order.
class Averager {
 public:
  // Moves the parameters into shared memory, with rank 0's values on all ranks; gradients start at
  // zero. The tensors stay the same objects, so optimisers may be made before or after. Those that
  // don't require gradients are left alone. `rank` outlives this. `collective`: as for
  // --collective. UsageError, on every rank, if the networks differ, or on the rank whose
  // parameters are not fp32 or not on the CPU.
  Averager(Rank& rank, const std::vector<at::Tensor>& parameters,
           std::string_view collective = "auto");
  // The same where gradients travel so. UsageError if they can't, and of dgc, which would have to
  // know the loop's optimiser. Overlap is for processes: a simulated rank must not pass time inside
  // backward.
  Averager(Rank& rank, const std::vector<at::Tensor>& parameters, const Carriage&);
  // Gives each parameter and gradient memory of its own again, with its values.
  ~Averager();
  Averager(const Averager&) = delete;
  Averager& operator=(const Averager&) = delete;

  // With overlap: the next backward is the last before average_gradients(), so that what it leaves
  // is final. Without this call the exchange begins in average_gradients(), and so it does where
  // nothing overlaps. As long as nothing else is different, the mean has the same bits.
  void last_backward();
  // On return all ranks hold the mean of their gradients, the same bits; each rank counts once.
  // UsageError if a gradient is no longer where it was put, or if another backward came after the
  // last one. TransportError names a peer that is gone.
  void average_gradients();
  // The same for weights, which always go as they are: for loops that step by themselves for a
  // while.
  void average_weights();

 private:
  class Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace lockstep
