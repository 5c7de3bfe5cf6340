// One rank's part of a network at work: forward and backward of one micro-batch at a time, and what
// the trainer needs beyond what a strategy sees. The part may be a stage of a network that is cut
// over several ranks; today's learners hold a whole network and take a whole batch at once, which
// is the simplest case. compute() and tally_of() in worker.h drive a learner, and carry what passes
// between stages.
//
// The real learner computes with LibTorch; the hollow one has sizes and computes nothing. Belongs
// to the rank's thread; none of its calls passes virtual time or waits for another rank.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/replica.h"
#include "measure/profile.h"
#include "strategies/strategy.h"
#include "train/checkpoint.h"
#include "train/experiment.h"

namespace lockstep {

class Network;  // replica/network.h

// A NaN or an infinity where it arose, before it spreads.
class BadGradient : public Error {
 public:
  using Error::Error;
};

// How part of the test set was answered. Empty on a stage that does not answer. Where a sample has
// a class for each of its pixels or tokens, each of those counts as one.
struct Tally {
  std::vector<double> correct, samples;  // by class
  std::vector<double> answers;           // by class: how often it was the answer
  double loss_sum = 0;
  double dice_sum = 0;  // over images with a mask
};

// A learner's part of a network as it can be evaluated.
struct Model {
  std::vector<float> weights;
  std::vector<float> statistics;  // of batch norm and its like
};

// A second network of the run, with weights of its own, that only answers. It is made on the rank's
// thread; from then on another thread may have it.
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

  // The weights and gradients of its part.
  virtual Replica& replica() = 0;

  // Each of these opens a batch and returns how many micro-batches it has: 0 without samples.
  //
  // This rank's batch of that step: the gradients are zero.
  virtual int open_step(std::uint64_t step) = 0;
  // Batch `i` of the task that is open, as that step.
  virtual int open_task_batch(std::size_t i, std::uint64_t step) = 0;
  // A part of the test set, which is only answered: forward() alone.
  virtual int open_test(Slice part_of_test_set) = 0;

  // Forward of one micro-batch of the open batch, in rising order. Returns what the next stage
  // needs, which stays in place until the next batch is opened; no numbers on the last stage.
  virtual Values forward(int micro) = 0;
  // After forward of that micro-batch: adds its part to the gradients. Returns the gradient of
  // input(), for the stage before; no numbers on the first stage.
  virtual Values backward(int micro) = 0;
  // The learner's memory for what the stage before sends of a micro-batch, and for the gradient
  // that the next stage sends back: filled before forward() and before backward(). No numbers: this
  // stage reads samples itself, or computes the loss itself.
  virtual Values input(int /*micro*/) { return kNoValues; }
  virtual Values output_gradient(int /*micro*/) { return kNoValues; }

  // After the last backward(): the gradients are now the mean over the samples of the batch.
  // Returns the mean loss, 0 where this stage computes none. BadGradient names rank, step and
  // parameter if a gradient is not finite.
  virtual double end_step() = 0;
  // After the last forward() of a part of the test set.
  virtual Tally end_test() = 0;

  // From then on `ready` is called for each part of the gradients when it is final: during
  // backward() of the last micro-batch, and for the rest in end_step(). It must not block.
  virtual void on_slice_ready(std::function<void(Slice)> /*ready*/) {}
  // Wall-clock seconds of the last step: forward (with reading the batch), backward, and where
  // on_slice_ready() was called, when each part of the gradients was final.
  struct Times {
    double forward_s = 0, backward_s = 0;
    std::vector<SliceTime> ready;
  };
  virtual const Times& last() const = 0;

  // From the next step on this rank reads with that team, it being one of its readers. Before the
  // first call: alone.
  virtual void read_with(const Team&) {}
  // For ranks that are handed what to read: opens a task of those samples, cut into batches of so
  // many (the last may be short), read as in that epoch.
  virtual void open_task(const std::vector<std::uint32_t>& indices, std::size_t batch,
                         int epoch) = 0;

  // What batch norm and its like have seen, kept per worker; averaged over workers to evaluate.
  virtual std::vector<float> statistics() { return {}; }
  virtual void set_statistics(const std::vector<float>&) {}
  // Writes its part of the network.
  virtual void save_model(const std::string& path) = 0;
  // What the network answers with, read out of the network. The memory of replica() is the same as
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

 protected:
  inline static const Values kNoValues{nullptr, 0, Type::fp32};
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
// The network that the configuration names, for its data, with the initial weights of its seed.
// UsageError.
std::unique_ptr<Network> network_for(const Experiment&, const ComputeTurns& = {});
// The experiment outlives it.
std::unique_ptr<Examiner> make_torch_examiner(const Experiment&, const ComputeTurns&);

}  // namespace lockstep
