// Which samples each worker reads in each step: a pure function of seed, epoch and step. Every rank
// computes the same without a message, and a run that resumes needs no state.
//
// An epoch reads every sample exactly once, in an order that is shuffled anew every epoch; see Cut
// for how the order is cut into batches.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "core/slices.h"
#include "data/split.h"

namespace lockstep {

// What batches are cut from.
enum class Cut {
  // Each worker cuts its shard into batches of its own size; the last may be short. The epoch has
  // as
  // many steps as the slowest worker needs; one that has run out has empty batches, so nobody waits
  // for it and nothing is dropped.
  own,
  // A step takes as many samples as all workers' batches hold together, and each worker's part of
  // them is its shard's part of all samples, so that all run out in the same step. The last step
  // may
  // be short.
  by_share,
  // There are no shards: the order that one worker would read all samples in is cut into global
  // batches, as large as all workers' batches together, and each of those by chunk(). Any number of
  // workers takes the same samples in the same step.
  common,
};

struct PlanOptions {
  Split split;
  std::vector<std::size_t> batch;  // by worker: its length is the number of workers
  // A new split every epoch.
  bool reshard = false;
  // As many of each class in every batch. Classes of a shard are rarely equally large: the samples
  // of the larger ones that no balanced batch can take form batches of their own, spread evenly
  // over the epoch; notices() counts them.
  bool balanced = false;
  Cut cut = Cut::own;
};

// Copies share the split, and each belongs to one thread.
class Plan {
 public:
  // The labels outlive all copies. UsageError: `class` with too many workers; `balanced` with a
  // batch that is no multiple of the classes, or where some worker could not fill one batch.
  // REQUIRES: by_share without `balanced`; common with the split `random`.
  Plan(Samples, PlanOptions, std::uint64_t seed);

  int workers() const { return static_cast<int>(options_->batch.size()); }
  Cut cut() const { return options_->cut; }
  std::size_t steps(int epoch);  // at least 1 if there are samples
  // How many samples each worker has in that step. Valid until the next call.
  std::span<const std::size_t> samples(int epoch, std::size_t step);
  // Which ones. REQUIRES: step < steps(epoch). Valid until the next call with another epoch.
  std::span<const std::uint32_t> indices(int worker, int epoch, std::size_t step);

  struct Position {
    int epoch = 0;
    std::size_t step = 0;
  };
  // Of a step that is counted over the whole run, from 0.
  Position position(std::uint64_t number);
  std::uint64_t steps_before(int epoch);  // in all epochs before it

  // How many samples each worker has in the first epoch.
  std::vector<std::size_t> samples_by_worker() const;
  // Workers that have no samples in any epoch. Where each epoch has a split of its own every worker
  // may have some.
  std::vector<int> idle() const;

  // What the user should know, a sentence each: shards smaller than their batch, empty ones,
  // batches that can't be balanced.
  std::vector<std::string> notices() const;

 private:
  // One worker's part of an epoch. Batches of leftovers come between the balanced ones.
  struct Share {
    std::size_t size = 0, batch = 1, steps = 0;
    std::size_t balanced = 0;  // batches with as many of each class, first in its order
    std::size_t leftover() const { return size - balanced * batch; }
    // Where the batch of that step lies in the worker's order of the epoch.
    Slice at(std::size_t step) const;
  };
  struct Epoch {  // immutable, hence shared between copies
    int number = 0;
    Shards shards;  // common: one, of all samples
    std::vector<Share> shares;
    std::size_t steps = 0;
    // by_share: where each worker's batch of each step begins in its order, by step and worker; and
    // where the last ends.
    std::vector<std::uint32_t> begins;
  };

  std::shared_ptr<const Epoch> make_epoch(int number) const;
  Share share_of(std::size_t batch, const Shard&) const;
  void cut_by_share(Epoch&) const;
  // Where the worker's batch of that step lies in the order it reads.
  Slice batch_at(const Epoch&, int worker, std::size_t step) const;
  const Epoch& at(int epoch);
  Shard order(int worker, const Epoch&, int number) const;

  Samples all_;
  std::shared_ptr<const PlanOptions> options_;
  std::size_t global_batch_;  // of all workers together
  std::uint64_t seed_;
  std::shared_ptr<const Epoch> first_, now_;
  std::vector<std::uint64_t> before_{0};  // steps before each epoch, as far as known
  std::vector<std::size_t> counts_;
  std::map<int, Shard> orders_;  // of the workers asked for in the epoch last asked for
  int order_epoch_ = -1;
};

}  // namespace lockstep
