// An average over the workers, with a state of its own. The strategy owns it and says what is
// averaged and when; the run says how (Crew::means): exactly, in fewer bytes, or beside backward.
//
// Sample, with const Crew& crew, Replica& replica, const Step& step, Slice part:
//
//   const std::unique_ptr<Mean> mean = make_mean(crew, Purpose::gradients);  // in the constructor
//   mean->begin(replica.gradients(), replica.parameters());                  // in begin()
//   if (mean->begins_early()) {
//     mean->open(step, step.samples);  // in Fed::expect(), before backward
//     mean->ready(part);               // in Fed::ready(), while backward runs
//   }
//   mean->run(step, step.samples);  // in update()
//
// Belongs to the rank's thread; an implementation may post jobs to the rank's background. Each
// exchange is collective over the workers, which are all ranks of the crew.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "strategies/statement.h"

namespace lockstep {

class Mean {
 public:
  Mean() = default;
  Mean(const Mean&) = delete;
  Mean& operator=(const Mean&) = delete;
  virtual ~Mean() = default;

  // Once, before the first exchange: these are the numbers that every exchange averages, in place,
  // and the parameters that they belong to. They stay where they are as long as this is used.
  virtual void begin(Values, std::span<const Parameter>) = 0;

  // An exchange begins, in which worker w's numbers count by samples[w] (see shares_of()). From now
  // on parts may be told ready.
  void open(const Step&, std::span<const std::size_t> samples);
  // That part of the numbers is final, and is the mean's until run() returns. Never blocks. Each
  // number is told at most once in an exchange, in any order.
  virtual void ready(Slice) {}
  // Does ready() begin anything? If not, it need not be called.
  virtual bool begins_early() const { return false; }
  // Returns when all numbers are the mean, the same bits on all workers. Numbers that were not told
  // are ready now. Opens the exchange unless open() did.
  void run(const Step&, std::span<const std::size_t> samples);

  // Between exchanges, where all workers have changed the numbers since the last one, and alike:
  // these are what each has now. A mean that sends differences from what all know counts from here;
  // else its messages would bring what everybody has already.
  virtual void all_hold(Values) {}

  // Bytes that `rank` sends in an exchange of `count` numbers. Where that depends on what the
  // numbers are: in the last exchange.
  virtual std::uint64_t bytes_sent(int rank, std::size_t count) const = 0;

  // What one exchange does, for the audit: a sum of the numbers with which each worker comes to it,
  // and of this mean's memories, which are counted as memories() has them.
  struct Sum {
    std::vector<double> numbers;  // by worker
    std::vector<OfMemory> memories = {};
    Holds holds = {};
  };
  // Of the numbers that every worker ends with. A mean with error feedback is exact: with
  // p_j = share_j g_j + e_j and e_j' = p_j - C(p_j) it is (1/m) sum_j (share_j g_j + e_j - e_j'),
  // whatever C is.
  virtual Sum stated(std::span<const std::size_t> samples) const;
  // Of memories()[which] of worker `rank`: most often what bounds it.
  virtual Sum stated_of_memory(std::size_t /*which*/, int /*rank*/,
                               std::span<const std::size_t> /*samples*/) const {
    return {};
  }

  // What must survive in a checkpoint, as Strategy has it: the strategy hands it on.
  virtual std::vector<Kept> memories() { return {}; }
  virtual std::string state() const { return {}; }
  virtual void restore(const std::string& /*state*/) {}

  // So far: what it has hidden beside the computation, its coding, and its buckets.
  virtual const Figures& figures() const;

 private:
  virtual void opened(const Step&, std::span<const std::size_t> samples) = 0;
  virtual void finish() = 0;

  bool is_open_ = false;
};

// Says in a flow of a crew of so many ranks that the gradients which the optimiser steps with, or
// the weights that a worker ends with, are that sum. `first`: the place of the mean's first memory
// among the strategy's memories().
void state_gradients(Flow&, const Mean::Sum&, std::size_t first = 0);
void state_weights(Flow&, const Mean::Sum&, int ranks, std::size_t first = 0);
// For Statement::flows_of_memory(): a memory of a mean of gradients or of weights is that sum,
Flow flow_of_memory(const Mean::Sum&, Purpose of, std::size_t count, int ranks,
                    std::size_t first = 0);
// and where a step changes nothing of memories()[which].
Flow flow_of_kept_memory(std::size_t which, std::size_t count, int ranks);

// The mean that the run has for such numbers: an exact one, by the crew's collective, unless
// Crew::means says otherwise. `crew` outlives it.
std::unique_ptr<Mean> make_mean(const Crew&, Purpose of);

}  // namespace lockstep
