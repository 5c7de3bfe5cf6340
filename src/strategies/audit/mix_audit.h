// The audit of ranks that go apart, where no step is common to all: every exchange is proved by
// itself. Who sends numbers sends their projection along (see projection.h), taken from where they
// come from, in the word that goes ahead of them; who mixes them into its own states the mix, and
// compares. And every replica is followed from step to step: what its weights are when a gradient
// is computed must be explained by its own optimiser's steps, which are watched, and by what
// exchanges brought, as the sender projected it. So what is fetched and never stored is found, and
// what is applied twice or never.
//
// A strategy does this in each exchange, at no cost where the audit is off.
//
// Sample, with MixAudit proof_, WeightBook book_, Values theirs, Values weights, double w:
//
//   const Projection sent = proof_.of(theirs);   // by the sender, which sends it ahead of them
//   const Projection mine = proof_.of(weights);  // by the receiver, before it mixes them in
//   // Here it mixes: weights become (1 - w) weights + w theirs.
//   proof_.expect("weights", weights, {{1 - w, mine}, {w, sent}});
//   // What that did to the replica's weights: they changed by this sum,
//   book_.adds({{w, sent}, {-w, mine}});
//   // or, where w is 1, they have become the sender's.
//   book_.takes(sent);
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/replica.h"
#include "strategies/audit/projection.h"
#include "strategies/statement.h"
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

  // Zero where the audit is off. Both sides must take it of the same parameters; `first` is the
  // index of the values' first, so that parts of a model add up to the whole. UsageError if hollow.
  Projection of(Values values, std::size_t first = 0) const {
    return of(values, {first, values.count()}, first);
  }
  // The same of those of them that have these indices.
  Projection of(Values, Slice part, std::size_t first = 0) const;
  // AuditError, naming this rank and `what`, unless `found` is that mix within rounding.
  void expect(std::string_view what, Values found, std::span<const Term>,
              std::size_t first = 0) const;
  void expect(std::string_view what, Values found, std::initializer_list<Term> mix) const {
    expect(what, found, std::span(mix.begin(), mix.size()));
  }
  // The same of a projection that was taken of `count` numbers; `loses`: see mismatch().
  void expect(std::string_view what, const Projection& found, std::span<const Term>,
              std::size_t count, double loses = 0) const;
  // AuditError, in which `what`, with what goes into it, says what is wrong.
  template <class... With>
  [[noreturn]] void fail(fmt::format_string<With...> what, With&&... with) const {
    const std::string all = fmt::format(what, std::forward<With>(with)...);
    throw AuditError(fmt::format("audit: rank {}: {}", rank_, all));
  }

 private:
  bool on_ = false;
  int rank_ = 0;
  std::uint64_t seed_ = 0;
};

// Numbers that came from a rank with a mass (see Strategy::mass).
struct Massed {
  int from;
  double mass;
  Projection of;
};

// One worker's weights, followed by what they project to; and the numbers it pushes to servers. For
// the rank's thread. Nothing happens where the audit is off.
class WeightBook {
 public:
  WeightBook() = default;  // off
  explicit WeightBook(const MixAudit& proof) : proof_(proof) {}

  // By strategies, as they do it, with what the sender said of its numbers. The weights become
  // these,
  void takes(const Projection& theirs) { takes({{1, theirs}}); }
  // these and what of this rank's own is not in them,
  void takes(std::vector<Term> theirs_and_own);
  // or the mean of what they were and of all these, by masses: these bring theirs, and what they
  // were counts by the mass that this book knows of, whatever the strategy takes it for,
  void mixes(std::span<const Massed> theirs);
  // or what they were and this sum,
  void adds(std::span<const Term>);
  void adds(std::initializer_list<Term> sum) { adds(std::span(sum.begin(), sum.size())); }
  // or, by what this rank has at hand, this sum.
  void becomes(std::initializer_list<Term>);
  // What must be pushed, added up until it is;
  void owes(std::initializer_list<Term>);
  // here: all that the optimiser has changed in this update;
  void owes_change();
  // within that distance (see Holds), since an encoding may lose so much,
  void may_lose(const Holds&);
  // and what of it waits for a later update.
  void still_owes(const Projection& held) { held_ = held; }

  // Of mass (see Strategy::mass): what each of `workers` begins a run with, the same for all;
  void starts_with_mass(double mass, int workers);
  // what came without weights (from this rank: with its first samples; below 0: until they come),
  // or left for another with weights: half of what was.
  void mass_came(double mass, int from);
  void mass_left(double mass, double kept, int to);
  // After all that has come and left since it said so last, it has this much;
  void has_mass(double mass);
  // and counts for this much in the model.
  void counts_for(double mass) const;

  // Collective over workers that all rest, so that nothing is under way: mass that left one of them
  // for another has come there. Those that are gone took theirs along, and no part in this.
  void prove_masses(Transport& workers) const;

  // By who carries messages: numbers to go on with have come, so that one of the first three must
  // follow before the update or the rest ends;
  void arrived() { ++arrived_; }
  // numbers were pushed.
  void pushed(const Projection&);

  // By the audit: an update, or a rest. Throws AuditError where weights are not what all this says,
  // when the optimiser steps and at the end; where they have changed since the last one; where what
  // was pushed is not what was owed.
  void follow(Replica&, const std::function<void(Replica&)>& act);
  // The same in two parts, of an update that begins before: from now on until follow(), with this
  // replica in place of that one.
  Replica& open(Replica&);
  // The same of the update of that step, in which the optimiser is to step all weights once, or not
  // at all.
  void follow(Replica&, const Step&, bool steps, const std::function<void(Replica&)>& act);
  // How often the optimiser has stepped all weights in the last of them.
  double steps() const { return steps_; }
  // The weights as they are now are those that the last one left.
  void check_unchanged(Values weights) const;
  // The weights were set by others, all over: a checkpoint.
  void forget() {
    is_open_ = false;
    had_mass_.reset();
  }

 private:
  void check(std::string_view what, const Projection& weights) const;
  void check_pushed();
  void close();

  MixAudit proof_;
  bool is_open_ = false;   // the weights are known,
  std::vector<Term> mix_;  // as this sum
  std::size_t count_ = 0;  // of them
  double steps_ = 0;
  // While an update is followed.
  std::unique_ptr<Replica> watched_;
  Projection before_;  // of what the optimiser steps
  std::size_t stepped_ = 0;
  double mass_ = 0;  // come less what has left
  std::optional<double> had_mass_;
  int workers_ = 0;                     // that began with the same mass
  std::map<int, double> mass_by_rank_;  // of the job: come from there less what has left for there
  std::vector<Term> change_;            // by the optimiser, in this update
  int arrived_ = 0;                     // and not taken yet
  std::vector<Term> owed_;
  Projection pushed_, held_;
  double loses_ = 0;
};

// The part of a strategy whose exchanges can be proved, one by one: it uses proof_ and book_ as the
// head of this file says.
class ExchangeProofs {
 public:
  // From now on every exchange is proved. On all ranks or on none, before begin(). The replica is
  // followed by whoever calls update() and rest(): see audit.h.
  void audit_exchanges(const Rank& rank) {
    proof_ = MixAudit(rank);
    book_ = WeightBook(proof_);
  }
  WeightBook& book() { return book_; }

 protected:
  ~ExchangeProofs() = default;
  MixAudit proof_;   // off unless audit_exchanges()
  WeightBook book_;  // and this
};

}  // namespace lockstep
