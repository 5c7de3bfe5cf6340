// Strategies that go in rounds (see Pace): a manager, which is the one server, hands out tasks;
// each worker trains on its task's samples alone, from the round's weights and with an optimiser
// made anew; and what the workers come back with is made into the weights of the next round.
// Handing out, collecting and giving up is the training loop's (train/worker.h).
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "core/error.h"
#include "strategies/audit/mix_audit.h"
#include "strategies/rounds/round_mail.h"
#include "strategies/rounds/task_book.h"
#include "strategies/strategy.h"

namespace lockstep {

struct RoundTerms {
  bool by_files = false;  // weights travel as files in the run's folder, else as messages
  TaskRules tasks = {};   // when they are given up, and what becomes of them then
};

// What a task came to.
struct RoundResult {
  int task = 0, worker = 0;
  double loss = 0;  // mean over its samples
  std::uint64_t samples = 0;
  RoundModel model;
  RoundProof proof = {};  // of the model where it comes from
};

class RoundStrategy : public Strategy, public Measured, public ExchangeProofs {
 public:
  explicit RoundStrategy(const Crew& crew)
      : Strategy(crew, {.rounds = this, .measured = this, .proofs = this}) {}

  virtual const RoundTerms& terms() const = 0;
  // What each result counts for, in the order given, which is that of tasks: none is negative, and
  // they add up to one. REQUIRES: at least one.
  virtual std::vector<double> factors(std::span<const RoundResult>) const = 0;

  // On the manager: mix(), and AuditError unless `into` is what that promises.
  void aggregate(const RoundModel& into, std::span<const RoundResult>);

  // Where exchanges are audited; else they do nothing, and the proofs are zero. On the manager: of
  // the model, to be given away with it or scored; AuditError unless it is what aggregate() made.
  RoundProof proof_of(const RoundModel&) const;
  // On a worker: a task begins. AuditError unless these are the model that the manager gave.
  void starts_from(Replica&, Values statistics, const RoundProof& given);
  // On a worker: of what it hands in. AuditError unless the weights are those it started from and
  // its own steps since.
  RoundProof comes_with(Replica&, Values statistics) const;

  // Within a task a worker steps alone. One that does it otherwise lets book_ follow it, too.
  void update(Replica&, const Step&) override;

 private:
  // On the manager: into = sum of factor · result. Statistics of batch norm count by their samples
  // as well, since all of a round start from the same. The same bits whatever order results came
  // in.
  virtual void mix(const RoundModel& into, std::span<const RoundResult>) = 0;
  void prove(const RoundModel&, const std::vector<double>& by, std::span<const RoundResult>);

  std::optional<RoundProof> made_;  // of the last round's results, under the audit
};

// The strategy's view as one that goes in rounds. InternalError if it does not.
inline RoundStrategy& in_rounds(Strategy& strategy) {
  if (strategy.parts().rounds) return *strategy.parts().rounds;
  throw InternalError("a strategy that does not go in rounds, where one that does is needed");
}

}  // namespace lockstep
