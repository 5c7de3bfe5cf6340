// The audit of ranks that go apart, where no step is common to all: every exchange is proved by
// itself. Who sends numbers sends their projection along (see projection.h), taken from where they
// come from, in the word that goes ahead of them; who mixes them into its own states the mix, and
// compares.
//
// A strategy does in each exchange, at no cost where the audit is off:
//   sender:    word.proof = proof_.of(values);
//   receiver:  const Projection mine = proof_.of(weights);  ...mix...
//              proof_.expect("weights", weights, {{1 - w, mine}, {w, word.proof}});
#pragma once

#include <initializer_list>
#include <string_view>

#include "core/error.h"
#include "strategies/projection.h"
#include "transport/rank.h"

namespace lockstep {

// The first thing that does not hold: step, rank, parameters, and what was expected and found.
class AuditError : public Error {
 public:
  using Error::Error;
};

class MixAudit {
 public:
  MixAudit() = default;  // off
  explicit MixAudit(const Rank&);
  bool on() const { return on_; }

  // Zero where the audit is off. Both sides must take it of the same parameters. UsageError if
  // hollow.
  Projection of(Values) const;
  // AuditError, naming this rank and `what`, unless `found` is that mix within rounding.
  void expect(std::string_view what, Values found, std::initializer_list<Term>) const;

 private:
  bool on_ = false;
  int rank_ = 0;
  std::uint64_t seed_ = 0;
};

}  // namespace lockstep
