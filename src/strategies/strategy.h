// How replicas are kept in step. Gradients in, weights out: after backward the training loop calls
// update(), and the next forward uses the weights it leaves. A strategy is one file that reads like
// its paper, and one line in strategies.def; the contract suite finds it there.
//
// Written against Rank and Replica alone, so the same object code runs on processes and in
// simulation, with values or hollow. Belongs to the rank's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/all_reduce.h"
#include "core/replica.h"
#include "strategies/contributions.h"
#include "strategies/mix_audit.h"
#include "transport/rank.h"

namespace lockstep {

// Who takes part. Ranks number workers first, then dedicated servers. `rank` outlives all that is
// made for this crew.
struct Crew {
  Rank& rank;  // of all of them
  int workers = 1;
  int servers = 0;         // of strategies that have servers; else 0
  bool colocated = false;  // server k is worker k, and there are no further ranks
  // Not `auto`: whoever makes the crew asks choose(), and records the answer.
  const AllReduceRow& collective;
  // Workers that have no samples in any step of the run, in rising order.
  std::vector<int> idle = {};
  // Of workers that go apart: their samples of one step are parts of one batch (--global-batch), so
  // that they need not be alike; else each has batches of its own, all of one size.
  bool one_batch = false;

  int ranks() const { return colocated ? workers : workers + servers; }
  bool works() const { return rank.rank() < workers; }
  int rank_of_server(int k) const { return colocated ? k : workers + k; }
};

// One optimisation step, the same on all ranks.
struct Step {
  std::uint64_t number = 0;  // from 0, over the whole run
  int epoch = 0;
  // How many samples each worker's gradient is the mean of. What a worker gives to an average
  // counts by its samples, so that every sample counts once, however uneven the shards are.
  std::span<const std::size_t> samples;
};
// The step of that number. What it returns stays valid until the next call.
using StepAt = std::function<Step(std::uint64_t number)>;

// Workers in a row that put their samples of a step together: the first `readers` of them read all,
// in parts that differ by at most one.
struct Team {
  int first = 0, size = 1, readers = 1;
  bool operator==(const Team&) const = default;
};

// What becomes of one part of one rank's numbers in a step: the strategy's own statement, a linear
// map. The audit and the contract suite hold the strategy to it, and theory is tested on it.
struct Flow {
  Slice part;
  // The gradient this rank's optimiser steps with, as factors of the workers' gradients. Empty:
  // this rank's optimiser does not step here.
  std::vector<double> gradients;
  // The weights this rank ends with, as factors of the weights that each rank (servers too) has
  // right after its own optimiser's step, or had before where it takes none;
  std::vector<double> weights;
  // and of those it had before the step, and of this rank's own memories() as they were then.
  // Empty: none.
  std::vector<double> before = {}, memory = {};
};

// Numbers that a strategy keeps beside the weights and the optimiser's state, one for each weight.
struct Kept {
  std::string name;      // in checkpoints
  Values values;         // the strategy's, in place from begin() on; hollow where the weights are
  bool a_model = false;  // a point where weights can be, else a difference of such points
};

class Strategy {
 public:
  explicit Strategy(const Crew& crew) : crew_(crew) {}
  Strategy(const Strategy&) = delete;
  Strategy& operator=(const Strategy&) = delete;
  virtual ~Strategy() = default;

  // On all ranks, before the first step: the weights are in place, the same on all ranks, or those
  // of a checkpoint.
  virtual void begin(Replica&) {}
  // On workers. In: replica.gradients() of this rank's own samples. Out: replica.weights() for the
  // next forward. Decides when, and with what, to apply_gradients().
  virtual void update(Replica&, const Step&) = 0;
  // Does this worker compute in that step? Else its gradients are not looked at, and it only takes
  // part in the exchange. Asked before the step, and the same answer until it has been taken.
  virtual bool trains(const Step&) const { return true; }
  // With whom it shares the samples that it would have in that step: asked as trains(), with the
  // step's samples as they are before anybody shares. Default: nobody.
  virtual Team team_of(const Step&, int worker) const { return {worker}; }
  // During backward, from its hooks: this part of the gradients is final. Note it; never block,
  // never send.
  virtual void slice_ready(Slice) {}
  // On dedicated servers: until every worker has had its steps from `first` up to `end` (and, where
  // ranks go apart, rests or is gone).
  virtual void serve(Replica&, const StepAt&, std::uint64_t /*first*/, std::uint64_t /*end*/) {}

  // Collective over workers: writes the model that this strategy defines (for evaluation and the
  // saved network) to `model`, memory of its own and as many; the replica stays as it is. Default:
  // the mean of the workers' weights by shares_in_model(), by an all-reduce of the copy under
  // Purpose::evaluation.
  virtual void read_model(Replica&, Values model);
  // What read_model() writes on `rank`, of all `count` parameters: as Flow says of the weights that
  // a rank ends with, from what all hold now. Default: the same mean. Where ranks go apart it is
  // not asked for: see mass() and fetch_model().
  virtual Flow flow_of_model(int rank, std::size_t count) const;

  // The flows of `rank` in that step, the one about to be taken or just taken, for `count`
  // parameters. The parts lie side by side, cover all, and are the same for all ranks. Where ranks
  // go apart: none.
  virtual std::vector<Flow> flows(const Step&, int rank, std::size_t count) const = 0;
  // The same of memories()[which], in the same parts: the optimiser does not step them, so without
  // gradients.
  virtual std::vector<Flow> flows_of_memory(std::size_t /*which*/, const Step&, int /*rank*/,
                                            std::size_t /*count*/) const {
    return {};
  }
  // Do all averages of weights, those flows in which all workers end alike, count every worker by
  // its samples since the last one? Then the model does, too.
  virtual bool averages_by_samples() const { return false; }
  // Bytes that `rank` sends in that step (for `shared`: reads from and writes to peers' memory).
  // Where ranks go apart: 0, what they send depends on when they meet.
  virtual std::uint64_t bytes_sent(const Step&, int rank, std::size_t count) const = 0;

  // What must survive in a checkpoint: numbers, and text (empty if nothing does). Restored after
  // begin(): first the numbers, in place, by the caller.
  virtual std::vector<Kept> memories() { return {}; }
  virtual std::string state() const { return {}; }
  virtual void restore(const std::string& /*state*/) {}

  // Of strategies whose ranks go apart (see Pace), on workers; none is collective but rest().
  //
  // Before a worker's first step, at first and after each rest: all have met since, and have saved
  // what they had.
  virtual void go() {}
  // After a worker's last step of the run, of as many as it has taken, before it comes to rest:
  // gives away what it has learnt and kept for a later exchange.
  virtual void hand_over(Replica&, std::uint64_t /*taken*/) {}
  // After a worker's last step before all ranks meet. Returns when nothing of this rank's is under
  // way and all workers rest or are gone: others may still need its answers. Then replicas hold
  // what the run goes on with, and fetch_model() what it has come to.
  virtual void rest(Replica&) {}
  // Collective over the workers that are there still, when all of them rest: proves what only all
  // can. Nothing but under the audit.
  virtual void prove_at_rest(Transport& /*workers*/) {}
  // What this worker's weights count for in the model, which is the workers' mean by these. Where
  // ranks go together, or the model is elsewhere: what its statistics of batch norm count for. 0:
  // it takes no part. Not zero on all. Default: 1, and 0 where it has no samples in the whole run;
  virtual double mass() const;
  // or the model is elsewhere: asks there, writes it and returns true.
  virtual bool fetch_model(Values) { return false; }
  // Seconds of update() or serve() in which this rank only waited for others, so far.
  virtual double waited_s() const { return 0; }
  // Seconds in which exchanges went on beside the computation, so far.
  virtual double hidden_s() const { return 0; }
  // Of this run's steps so far, those before a resume among them.
  virtual Sends sends() const { return {}; }

  // What was mixed into the numbers that this rank holds, so far.
  const Contributions& contributions() const { return contributions_; }
  // From now on every exchange between ranks that go apart is proved (see mix_audit.h). On all
  // ranks or on none, before begin(). The replica is followed by who calls update() and rest(): see
  // audit.h.
  void audit_exchanges() {
    proof_ = MixAudit(crew_.rank);
    book_ = WeightBook(proof_);
  }
  WeightBook& book() { return book_; }
  // On workers, nothing but under the audit: AuditError unless `own` are the weights that the last
  // update or rest has left here, and the updates had so many samples of this worker's in all: what
  // its weights and its statistics of batch norm are about to be counted by.
  virtual void prove_own(Values /*own*/, std::uint64_t /*samples*/) const {}
  // Of strategies whose ranks go apart: how often this worker's own optimiser steps its weights in
  // that update. Default: once, if it has samples.
  virtual int own_steps(const Step& step) const {
    return step.samples[crew_.rank.rank()] > 0 ? 1 : 0;
  }

 protected:
  // Where workers go apart: what this one's step counts for beside those of the others. 1, but
  // where a step is one batch of all its samples over the workers' mean.
  double own_share(const Step&) const;

  // What each worker's weights count for in the mean that is the model, over the workers' mean of
  // these, as it is now. Default: 1 each.
  virtual std::vector<double> shares_in_model() const {
    return std::vector<double>(crew_.workers, 1);
  }

  const Crew crew_;
  Contributions contributions_;
  MixAudit proof_;   // off unless audit_exchanges()
  WeightBook book_;  // and this
};

}  // namespace lockstep
