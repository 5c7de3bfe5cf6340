// One rank's network at work: what the training loop needs beyond what a strategy sees. The real
// one computes with LibTorch; the hollow one has sizes and computes nothing. Belongs to the rank's
// thread; none of its calls passes virtual time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/replica.h"
#include "strategies/strategy.h"
#include "train/checkpoint.h"
#include "train/experiment.h"

namespace lockstep {

// A NaN or an infinity where it arose, before it spreads.
class BadGradient : public Error {
 public:
  using Error::Error;
};

// How part of the test set was answered.
struct Tally {
  std::vector<double> correct, samples;  // by class
  std::vector<double> answers;           // by class: how often it was the answer
  double loss_sum = 0;
};

// A network as it can be evaluated.
struct Model {
  std::vector<float> weights;
  std::vector<float> statistics;  // of batch norm and its like
};

// A second network of the run, with weights of its own, that only answers. Made on the rank's
// thread; from then on it may be another's.
class Examiner {
 public:
  virtual ~Examiner() = default;
  // InternalError unless the model is of this network.
  virtual void take(const Model&) = 0;
  virtual Model held() = 0;  // what it answers with
  virtual Tally tally(Slice part_of_test_set) = 0;
};

class Learner {
 public:
  virtual ~Learner() = default;

  virtual Replica& replica() = 0;
  // Forward and backward on this rank's batch of that step: replica().gradients() are then the mean
  // over its samples, zeros if it has none. Returns the mean loss, 0 without samples.
  // BadGradient names rank, step and parameter if a gradient is not finite.
  virtual double compute(std::uint64_t step) = 0;
  // From the next compute() on this rank reads with that team, it being one of its readers. Before
  // the first call: alone.
  virtual void read_with(const Team&) {}
  // For ranks that are handed what to read: those samples, cut into batches of so many (the last
  // may be short), read as in that epoch; then forward and backward on batch `i` of them, as
  // compute().
  virtual void open_task(const std::vector<std::uint32_t>& indices, std::size_t batch,
                         int epoch) = 0;
  virtual double compute_of_task(std::size_t i, std::uint64_t step) = 0;
  // From then on `ready` is called during backward, whenever a part of the gradients is final; when
  // compute() returns, all parts have been told. It must not block.
  virtual void on_slice_ready(std::function<void(Slice)> /*ready*/) {}
  // Seconds of the last compute(): forward (with reading the batch), backward.
  struct Halves {
    double forward_s = 0, backward_s = 0;
  };
  virtual Halves last() const { return {}; }

  // With the weights as they are.
  virtual Tally tally(Slice part_of_test_set) = 0;
  // What batch norm and its like have seen, kept per worker; averaged over workers to evaluate.
  virtual std::vector<float> statistics() { return {}; }
  virtual void set_statistics(const std::vector<float>&) {}
  virtual void save_model(const std::string& path) = 0;
  // What the network answers with, read out of the network: the memory of replica() is that only as
  // long as the two have not come apart.
  virtual Model held_by_network() = 0;
  // What the file that save_model() wrote holds.
  virtual Model read_model(const std::string& path) = 0;

  // All that resuming needs beside the weights: optimiser, random engine, statistics. The bytes
  // stay valid until the next call of anything here.
  virtual std::vector<Blob> state() = 0;
  virtual void restore(const Checkpoint&, int rank) = 0;
  // Files of the training data found damaged and replaced so far.
  virtual std::vector<std::string> damaged() const { return {}; }
};

// Where weights and gradients go, `count` numbers each: windows, or hollow.
struct ReplicaMemory {
  Bytes weights, gradients;
};
using OpenMemory = std::function<ReplicaMemory(std::size_t count)>;

// For ranks that are threads of one process: LibTorch has one random engine, so they compute one at
// a time. Empty in other worlds.
struct ComputeTurns {
  std::function<void()> take, give;
};

// `rank`: of the run; servers have a learner too, whose network is only stepped. Sets LibTorch's
// threads for the calling thread, as the experiment says.
std::unique_ptr<Learner> make_torch_learner(const Experiment&, int rank, const OpenMemory&,
                                            const ComputeTurns&);
std::unique_ptr<Learner> make_hollow_learner(const Experiment&, const OpenMemory&);
// The experiment outlives it.
std::unique_ptr<Examiner> make_torch_examiner(const Experiment&, const ComputeTurns&);

}  // namespace lockstep
