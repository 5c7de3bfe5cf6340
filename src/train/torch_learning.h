// What the learners that compute with LibTorch share.
#pragma once

#include <optional>

#include "data/loader.h"
#include "replica/torch_replica.h"
#include "train/learner.h"

namespace lockstep {

// The mean loss of the samples, given the network's output.
torch::Tensor cross_entropy(const torch::Tensor& output, const torch::Tensor& y);

// Of no answers yet.
Tally empty_tally(const Dataset& test);
void add(const Batch&, const torch::Tensor& output, Tally&);
// That part of the test set is read in batches of so many; the last may be short.
Picks test_picks(Slice part, std::uint64_t batch, std::size_t size);
// See Dataset::read.
std::uint64_t variation(int epoch);

Model model_from(Network::Numbers);
// UsageError unless the network can be trained.
TorchReplicaInput replica_input(const Experiment&, int rank, std::unique_ptr<Network>,
                                const OpenMemory&, const ComputeTurns&);
void add_optimiser_state(Optimiser&, std::vector<Blob>&);
void restore_optimiser(Optimiser&, const Checkpoint&, int rank);

// Looks for gradients that are not finite, where the processor has noted that there may be some.
class GradientWatch {
 public:
  // The replica outlives it.
  GradientWatch(const TorchReplica& replica, int rank) : replica_(replica), rank_(rank) {}

  void open(std::uint64_t step);
  // Where learners tell which parts of the gradients are final: is it well, and so are all that
  // were asked for before? Else it must not be told: whoever is told may write there, or send it,
  // and later nobody could say whose numbers these were.
  bool may_tell(Slice part, bool loss_is_finite);
  // BadGradient names rank, step and parameter, or the loss.
  void close(double loss) const;

 private:
  const TorchReplica& replica_;
  const int rank_;
  std::uint64_t step_ = 0;
  bool tells_ = false;
  std::optional<std::string> bad_;  // of the open step, where it tells: whose gradient it was
};

// The most memory that a step has taken, see Learner::peak_tensor_bytes().
class StepMemory {
 public:
  // Counts tensors from now on. The replica outlives it.
  explicit StepMemory(TorchReplica&);

  void open();
  void close();
  std::uint64_t peak_bytes() const;

 private:
  TorchReplica& replica_;
  std::uint64_t tensors_ = 0;
};

}  // namespace lockstep
