// How replicas are kept in step. Gradients in, weights out: after backward the training loop calls
// update(), and the next forward uses the weights it leaves. A strategy is one file that reads like
// its paper, and one line in strategies.def; the contract suite finds it there. A program that uses
// the library has rows of its own (see StrategyRow).
//
// Every strategy implements Strategy. What else it does is in small interfaces, the parts: it
// implements those that it needs, and names them to Strategy's constructor.
//
//   Statement    statement.h        what a step does with the numbers   workers in step
//   Fed          here               gradients beside backward           who sends gradients
//   Pooling      here               workers that share their samples    workers in step
//   Serving      here               what servers do                     where there are servers
//   Apart        here               how workers set off and rest        workers that go apart
//   RoundStrategy round_strategy.h  what a manager makes of results     workers in rounds
//   Measured     here               times and counts for the records    whoever has some
//   ExchangeProofs mix_audit.h      what the audit follows              apart and in rounds
//   Audit        audit.h            what the audit proves               audited strategies alone
//
// Written against Rank and Replica alone, so the same object code runs on processes and in
// simulation, with values or hollow. Belongs to the rank's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collectives/all_reduce.h"
#include "core/replica.h"
#include "strategies/buckets.h"
#include "strategies/figures.h"
#include "transport/rank.h"

namespace lockstep {

class Mean;
class PushCode;
struct Crew;

// Makes the averages of a run (see mean.h), one for each kind of numbers that a strategy averages.
using MakeMean = std::function<std::unique_ptr<Mean>(const Crew&, Purpose of)>;
// Makes what turns numbers that a worker pushes to servers into messages (see push_code.h).
using MakePushCode = std::function<std::unique_ptr<PushCode>(const Crew&)>;

// Who takes part. Ranks number workers first, then dedicated servers. `rank` outlives all that is
// made for this crew.
struct Crew {
  Rank& rank;  // of all of them
  int workers = 1;
  int servers = 0;         // of strategies that have servers; else 0
  bool colocated = false;  // server k is worker k, and there are no further ranks
  // By what averages are taken. `auto` is chosen for each exchange by its own size and place.
  const AllReduceRow& collective;
  // Workers that have no samples in any step of the run, in rising order.
  std::vector<int> idle = {};
  // For workers that go apart: their samples of one step are parts of one batch (--global-batch),
  // so that they need not be alike; else each has batches of its own, all of one size.
  bool one_batch = false;
  // How this run averages; none: exactly, when all numbers are there. A strategy asks make_mean().
  MakeMean means = {};
  // How this run pushes; none: numbers as they are. A strategy asks make_push_code().
  MakePushCode push_codes = {};
  // How gradients that are pushed to servers are cut; none: a push goes when all of it is there.
  std::optional<BucketRule> push_buckets = {};
  CodingCost coding_cost = {};  // charged to virtual time by whatever encodes or decodes

  int ranks() const { return colocated ? workers : workers + servers; }
  bool works() const { return rank.rank() < workers; }
  int rank_of_server(int k) const { return colocated ? k : workers + k; }
  // What server k holds of `count` parameters.
  Slice shard(int k, std::size_t count) const { return chunk(count, servers, k); }
};

// How workers keep pace: all take each step together; or each goes at its own, exchanges when it
// comes to it, and goes on without those that are gone; or in rounds, in which a manager hands out
// tasks and each worker works through its own alone (see round_strategy.h).
enum class Pace { together, apart, rounds };

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

// Numbers that a strategy keeps beside the weights and the optimiser's state, one for each weight
// or for some of them in a row.
struct Kept {
  std::string name;       // in checkpoints
  Values values;          // the strategy's, in place from begin() on; hollow where the weights are
  bool a_model = false;   // a point where weights can be, else a difference of such points
  std::size_t first = 0;  // the weight that the first of them is for; for others it counts as zero
  bool in_checkpoints = true;  // else each step writes it anew, without a look at what it was
};

class Statement;
class Fed;
class Pooling;
class Serving;
class Apart;
class RoundStrategy;
class Measured;
class ExchangeProofs;
class Audit;

// The interfaces that a strategy implements beside Strategy; null: it does not. All live as long as
// the strategy.
struct StrategyParts {
  Statement* statement = nullptr;
  Fed* fed = nullptr;
  Pooling* pooling = nullptr;
  Serving* serving = nullptr;
  Apart* apart = nullptr;
  RoundStrategy* rounds = nullptr;
  Measured* measured = nullptr;
  ExchangeProofs* proofs = nullptr;
  Audit* audit = nullptr;
};

class Strategy {
 public:
  explicit Strategy(const Crew& crew, const StrategyParts& parts = {})
      : crew_(crew), parts_(parts) {}
  Strategy(const Strategy&) = delete;
  Strategy& operator=(const Strategy&) = delete;
  virtual ~Strategy() = default;

  // The same from construction to destruction.
  const StrategyParts& parts() const { return parts_; }
  // As the parts have it: whoever goes apart or in rounds has that part.
  Pace pace() const {
    return parts_.rounds ? Pace::rounds : parts_.apart ? Pace::apart : Pace::together;
  }

  // On all ranks, before the first step: the weights are in place, the same on all ranks, or those
  // of a checkpoint.
  virtual void begin(Replica&) {}
  // On workers. In: replica.gradients() of this rank's own samples. Out: replica.weights() for the
  // next forward. Decides when, and with what, to apply_gradients().
  virtual void update(Replica&, const Step&) = 0;

  // The model that this strategy defines, for evaluation and the saved network. Where workers go
  // together, and collective over them: writes it to `model`, memory of its own and as many; the
  // replica stays as it is. Default: the mean of the workers' weights (see read_mean()).
  virtual void read_model(Replica&, Values model);
  // What this worker counts for in the model: its statistics of batch norm, and where workers go
  // apart and Apart::fetch_model() has none, its weights, whose mean the model is. 0: it takes no
  // part. Not zero on all. Default: 1, and 0 where it has no samples in the whole run.
  virtual double mass() const;

  // What must survive in a checkpoint: numbers, and text (empty if nothing does). Restored after
  // begin() and before the first step: first the numbers, in place, by the caller.
  virtual std::vector<Kept> memories() { return {}; }
  virtual std::string state() const { return {}; }
  virtual void restore(const std::string& /*state*/) {}

 protected:
  bool has_samples(const Step& step) const { return step.samples[crew_.rank.rank()] > 0; }
  // Where workers go apart: what this one's step counts for beside those of the others. 1, but
  // where a step is one batch of all its samples over the workers' mean.
  double own_share(const Step&) const;

  const Crew crew_;
  StrategyParts parts_;  // changed by constructors alone
};

// A strategy's own state with that of its Mean or PushCode behind it, if that has one; and what is
// behind it, once the strategy has read its own.
std::string with_state(std::string own, const std::string& behind);
std::string state_behind(std::istream&);

// Of a strategy whose exchange of gradients can begin while backward still runs. The training loop
// may leave it alone: then all gradients are ready when update() is called. On workers, on the
// rank's thread.
class Fed {
 public:
  // Before backward of that step, whose update() follows: what each worker's gradients count for is
  // known before the first of them is sent.
  virtual void expect(Replica&, const Step&) = 0;
  // That part of the gradients is final, and the strategy's until update() returns; so are the
  // weights that it is of, since backward has gone back through all that they went into. Called
  // from inside backward, so it neither blocks nor computes for longer than the optimiser's step of
  // that part; in simulation after backward has returned, since nothing inside backward may pass
  // virtual time. Parts do not overlap; those that were not told are ready when update() is called.
  virtual void ready(Slice part) = 0;
  // Does a part that is ready begin anything before update()? If not, neither function is called.
  // The same from construction to destruction.
  virtual bool begins_early() const { return true; }

 protected:
  ~Fed() = default;
};

// Workers in a row that put their samples of a step together: the first `readers` of them read all,
// in parts that differ by at most one.
struct Team {
  int first = 0, size = 1, readers = 1;
  bool operator==(const Team&) const = default;
};

// Of a strategy whose workers go together and can read for each other.
class Pooling {
 public:
  // Does this worker compute in that step? Else its gradients are not looked at, and it only takes
  // part in the exchange. Asked before the step, and the same answer until it has been taken.
  virtual bool trains(const Step&) const = 0;
  // With whom it shares the samples that it would have in that step: asked as trains(), with the
  // step's samples as they are before anybody shares.
  virtual Team team_of(const Step&, int worker) const = 0;

 protected:
  ~Pooling() = default;
};
// The same of any strategy: without the part every worker trains, and shares with nobody.
bool trains(const Strategy&, const Step&);
Team team_of(const Strategy&, const Step&, int worker);
// By worker, the samples that each reads of a step whose samples nobody has shared yet.
std::vector<std::size_t> samples_read(const Strategy&, const Step&);

// Of a strategy that has dedicated servers.
class Serving {
 public:
  // On a server: until every worker has had its steps from `first` up to `end` (and, where ranks go
  // apart, rests or is gone).
  virtual void serve(Replica&, const StepAt&, std::uint64_t first, std::uint64_t end) = 0;

 protected:
  ~Serving() = default;
};

// Of a strategy whose workers go apart (see Pace): how they set off and come to rest, and what the
// run has come to. On workers; nothing here is collective but rest().
class Apart {
 public:
  // Before a worker's first step, at first and after each rest: all have met since, and have saved
  // what they had.
  virtual void go() {}
  // After a worker's last step of the run, of as many as it has taken, before it comes to rest:
  // gives away what it has learnt and kept for a later exchange.
  virtual void hand_over(Replica&, std::uint64_t /*taken*/) {}
  // After a worker's last step before all ranks meet. Returns when nothing of this rank's is under
  // way and all workers rest or are gone: others may still need its answers. Then replicas hold
  // what the run goes on with, and fetch_model() what it has come to.
  virtual void rest(Replica&) = 0;
  // Where the model is elsewhere, at servers say: asks there, writes it and returns true. Default:
  // the model is the mean of the workers' weights by their mass().
  virtual bool fetch_model(Values) { return false; }
  // Does this worker's own optimiser step its weights, once in each update that has samples? Else
  // never: others step, or the strategy has a rule of its own.
  virtual bool steps_own_weights() const { return true; }

 protected:
  ~Apart() = default;
};

// Of a strategy that has figures for the records.
class Measured {
 public:
  // So far. Stays in place, and true until the next call of anything of this strategy.
  virtual const Figures& figures() { return figures_; }

 protected:
  ~Measured() = default;
  Figures figures_;
};
// The same of any strategy: zeros where it has none.
const Figures& figures_of(const Strategy&);

}  // namespace lockstep
