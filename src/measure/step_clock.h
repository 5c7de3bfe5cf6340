// Where a rank's training time goes. Each step is stamped when it starts, when this rank is ready
// to exchange, and when it is over; what the optimiser took in between is known too. From the
// stamps of all ranks follows what no rank can see alone: of the time spent exchanging, how long it
// only waited for ranks that were not ready yet.
//
//   compute = start..ready + optimiser (less what a pipeline's worker waited for others in it,
//   which is waiting),  wait = until the last rank was ready (at most the
//   exchange), communicate = the rest of the exchange; together the whole training time.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <vector>

#include "core/bucket_span.h"
#include "core/replica.h"
#include "transport/rank.h"

namespace lockstep {

struct Spent {
  double compute_s = 0, communicate_s = 0, wait_s = 0;
  // How unlike the workers' compute times are: their variance within a step, summed over steps.
  double variance_s2 = 0;
  double hidden_s = 0;   // communication beside the computation: no part of the total
  double stalled_s = 0;  // of the waiting: for other workers of its pipeline, between its passes
  double total_s() const { return compute_s + communicate_s + wait_s; }
  Spent& operator+=(const Spent&);
};

// A pass of a pipeline's worker: forward, recompute, backward, backward of inputs or of weights.
struct PassSpan {
  int pass = 0;  // in that order
  double start = 0, end = 0;
};

// One step of a rank, on rank 0's clock.
struct TimedStep {
  double start = 0, ready = 0, end = 0;
  double optimiser_at = 0, optimiser_s = 0;  // when it started first; all its calls
  // From here on known once settled.
  double wait_s = 0;
  int last = 0;  // the rank that was ready last: the lowest of several
  // For the timeline.
  double backward_at = 0, backward_s = 0;  // the last one, of the last micro-batch; 0: not known
  std::vector<BucketSpan> spans = {};      // of buckets that were exchanged in it
  // Of a worker of a pipeline: how long it waited for others before it was ready, and for the
  // timeline what it did meanwhile.
  double stalled_s = 0;
  std::vector<PassSpan> passes = {};

  double compute_s() const { return ready - start - stalled_s + optimiser_s; }
  double exchange_s() const { return end - ready - optimiser_s; }
};

class StepClock {
 public:
  // `ahead_s`: how far this rank's clock is ahead of rank 0's. `workers`: the first so many ranks
  // compute.
  StepClock(Clock& clock, double ahead_s, int workers = 1)
      : clock_(clock), ahead_s_(ahead_s), workers_(workers) {}

  void start();
  void ready();
  void end();
  void optimised(double since, double until);
  // Of the step that goes on, for the timeline.
  void backward(double since, double until);
  // Spans that began before this step were told before.
  void exchanged(std::span<const BucketSpan>);
  // Of the step that goes on: so long this rank waited for others of its pipeline.
  void stalled(double seconds) { now_.stalled_s += seconds; }
  // A pass of it, for the timeline.
  void passed(PassSpan);
  // Of the step that goes on, so long this rank only waited: for ranks that go apart, which can't
  // see it from each other's stamps.
  void waited(double seconds) { now_.wait_s += seconds; }
  void hidden(double seconds) { spent_.hidden_s += seconds; }
  // Of the step that ended last.
  double last_s() const { return now_.end - now_.start; }
  double last_optimiser_s() const { return now_.optimiser_s; }
  // A time of this rank's clock on rank 0's.
  double at_first(double time_s) const { return time_s - ahead_s_; }

  // So far, of this rank: steps timed since the last settle() count as well.
  double training_s() const { return training_s_; }
  // Collective over all ranks, which have timed the same steps: divides the time of the steps since
  // the last call, and returns them, this rank's.
  std::vector<TimedStep> settle(Transport&);
  // The same by this rank alone, from what it was told it waited.
  std::vector<TimedStep> settle();
  const Spent& spent() const { return spent_; }
  // Time of training that belongs to no step: exchanging, and waiting for others.
  void between_steps(double communicate_s, double wait_s);
  // For resuming.
  void restore(double training_s, const Spent& spent);

 private:
  Clock& clock_;
  const double ahead_s_;
  const int workers_;
  TimedStep now_;
  double training_s_ = 0;
  Spent spent_;
  std::vector<TimedStep> open_;
};

// Which ranks the others waited for: in each step the rank that was ready to exchange last, and how
// long the workers waited for it. Waiting is a server's work, and so does not count.
struct Stragglers {
  struct Share {
    std::uint64_t steps = 0;  // in which it was last and anybody waited
    double seconds = 0;       // of all workers together
  };
  std::vector<Share> by_rank;

  explicit Stragglers(int ranks = 0) : by_rank(ranks) {}
  void add(int last, double seconds);
  double total_s() const;
  // The rank that stands out: its share of the waiting is more than half way from an even share to
  // all of it, and waiting took more than 5 % of `worker_s`, the training time of all workers.
  std::optional<int> straggler(double worker_s) const;
};
nlohmann::ordered_json to_json(const Stragglers&);
Stragglers stragglers_from(const nlohmann::json&);

// Collective. How far this rank's clock is ahead of rank 0's: 0 in simulation and on one host, else
// from the quickest of a few exchanges with it.
double clock_ahead_s(Transport&);

}  // namespace lockstep
