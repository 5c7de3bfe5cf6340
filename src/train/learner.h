// One rank's part of a network at work: the passes of its stages, one micro-batch at a time, and
// what the trainer needs beyond what a strategy sees. The part may be stages of a network that is
// cut over several ranks; a learner of a whole network has one stage and takes a whole batch at
// once, which is the simplest case. compute() and tally_of() in worker.h drive a learner, and carry
// what passes between stages of two ranks.
//
// The real learner computes with LibTorch; the hollow one has sizes and computes nothing. Belongs
// to the rank's thread; none of its calls passes virtual time or waits for another rank.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/replica.h"
#include "measure/profile.h"
#include "parallel/pipeline_schedule.h"
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

// A tensor that passes between two workers of a pipeline for one micro-batch: what the next stage
// needs, a skip connection, or the gradient of either on its way back.
struct Passage {
  int worker = 0;  // of the pipeline: the other end
  int link = 0;    // which of the pipeline's links, counted alike on all workers
  Action action;   // the one that sends it: its replica, pass and micro-batch tell messages apart
  Values numbers;  // the learner's memory; hollow where there are no numbers
  // Of what is sent: keeps the memory in place until it is on its way. None: the learner does,
  // until the batch is closed.
  std::shared_ptr<const void> keeps = {};
};

class Learner {
 public:
  virtual ~Learner() = default;

  // The weights and gradients of its part.
  virtual Replica& replica() = 0;

  // Each of these opens a batch.
  //
  // The samples of that step of this rank, or of its pipeline: the gradients are zero.
  virtual void open_step(std::uint64_t step) = 0;
  // Batch `i` of the task that is open, as that step.
  virtual void open_task_batch(std::size_t i, std::uint64_t step) = 0;
  // A part of the test set, which is only answered.
  virtual void open_test(Slice part_of_test_set) = 0;

  // What this rank does with the open batch, one after another; of a test: forward passes alone.
  // None without samples.
  virtual std::vector<Action> actions() const = 0;
  // What comes from other workers and must be there before that action is run. The memory is the
  // learner's from the call on: it is asked for once, some actions ahead of that one.
  virtual std::vector<Passage> needs(const Action&) { return {}; }
  // Runs it. Returns what is to be sent to other workers. What passes between stages of this rank
  // is the learner's own affair.
  virtual std::vector<Passage> run(const Action&) = 0;

  // These close it.
  //
  // After the last action: the gradients are now the mean over the samples of the batch. Returns
  // the mean loss; where a batch's losses are computed by several workers of a pipeline, this one's
  // part of it (those of all add up to the mean), and 0 where it computes none. BadGradient names
  // rank, step and parameter if a gradient is not finite.
  virtual double end_step() = 0;
  // After the last action of a part of the test set.
  virtual Tally end_test() = 0;

  // From then on `ready` is called for each part of the gradients when it is final: during
  // the last backward pass of each, and for the rest in end_step(). It must not block.
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
  // The most bytes that tensors have taken in a step, with weights, gradients and the optimiser's
  // state. Of the process, so of a rank that has one to itself. None: it computes nothing.
  virtual std::optional<std::uint64_t> peak_tensor_bytes() { return {}; }
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
// The same of a worker of a pipeline, which is rank `rank` of the run.
std::unique_ptr<Learner> make_hollow_stages(const Experiment&, int rank, const OpenMemory&);
// The network that the configuration names, for its data, with the initial weights of its seed.
// UsageError.
std::unique_ptr<Network> network_for(const Experiment&, const ComputeTurns& = {});
// The experiment outlives it.
std::unique_ptr<Examiner> make_torch_examiner(const Experiment&, const ComputeTurns&);

}  // namespace lockstep
