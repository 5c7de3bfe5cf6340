// Strategies that go in rounds (see Pace): a manager, which is the one server, hands out tasks;
// each worker trains on its task's samples alone, from the round's weights and with an optimiser
// made anew; and what the workers come back with is made into the weights of the next round.
// Handing out, collecting and giving up is the training loop's (train/rounds.h).
#pragma once

#include <span>
#include <string_view>

#include "strategies/round_mail.h"
#include "strategies/strategy.h"

namespace lockstep {

struct RoundTerms {
  bool by_files = false;  // weights travel as files in the run's folder, else as messages
  double give_up_s = 0;   // a task that is out for longer is given up; 0: only if its holder dies
  bool reissue = true;    // what is given up is handed to somebody else, else dropped
};

// What a task came to.
struct RoundResult {
  int task = 0, worker = 0;
  double loss = 0;  // mean over its samples
  std::uint64_t samples = 0;
  RoundModel model;
  Projection proof = {};  // of the weights where they come from, for the audit
};

class RoundStrategy : public Strategy {
 public:
  using Strategy::Strategy;

  virtual const RoundTerms& terms() const = 0;
  // What each result counts for, in the order given, which is that of tasks: none is negative, and
  // they add up to one. REQUIRES: at least one.
  virtual std::vector<double> factors(std::span<const RoundResult>) const = 0;

  // On the manager: into = sum of factor · result, of weights and statistics. The same bits
  // whatever order results came in. AuditError where exchanges are audited.
  void aggregate(const RoundModel& into, std::span<const RoundResult>);
  MixAudit& proof() { return proof_; }

  // Within a task a worker steps alone.
  void update(Replica& replica, const Step& step) override { replica.apply_gradients(step.number); }
  std::vector<Flow> flows(const Step&, int, std::size_t) const override { return {}; }
  std::uint64_t bytes_sent(const Step&, int, std::size_t) const override { return 0; }
};

// The strategy's view as one that goes in rounds. InternalError if it does not.
RoundStrategy& in_rounds(Strategy&);

// into[i] = sum over k of factors[k] · from[k][i], in that order, in double precision and rounded
// once: equal vectors, by factors that add up to one, come out as they are. Hollow: nothing.
void mix(Values into, std::span<const double> factors, std::span<const Values> from);

}  // namespace lockstep
