// Strategies by name. A new one is a file of its own with a StrategyMaker, and a line in
// strategies.def. A program that uses the library has rows of its own: wherever a spec is read,
// `own` is one more row, which goes before all others.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/options.h"
#include "strategies/strategy.h"

namespace lockstep {

// What a strategy may want to know of a run before anything is started.
struct RunTerms {
  int workers = 1, servers = 0;
  bool colocated = false;  // as in Crew
  bool audit = false;
  std::string optimizer = "sgd";    // its spec
  bool plain_sgd = true;            // by its rate and momentum alone
  bool needs_whole_layers = false;  // see Replica
  std::string transport = "auto";
  bool shaped = false;    // links are slowed down
  bool hollow = false;    // replicas have sizes and no numbers
  bool recorded = false;  // its choices are written down, or replayed (see decorators/witness.h)
  // Of the whole run; not known before the data is open, and of no limit where the end is open.
  std::uint64_t steps = 0;
};

// How the numbers of a strategy get from rank to rank, which is what decides how they can be
// compressed (see carriage.h).
enum class Travels {
  own_way,  // by messages of the strategy's own
  mean_of_gradients,
  mean_of_weights,   // both by make_mean()
  pushed_gradients,  // all these by make_push_code(): to servers, of one step,
  pushed_changes,    // what a step changed of the weights,
  pushed_sums,       // gradients of several steps,
  pushed_distances,  // or a part of the way to a centre;
  sent_weights       // or to another worker, weights as they are
};

// A strategy with the values of its parameters, which were found good.
struct StrategyMaker {
  // On one rank.
  std::function<std::unique_ptr<Strategy>(const Crew&)> make;
  // Throws UsageError where the strategy can't do what the run asks for; none: it refuses nothing.
  // Before `steps` are known.
  std::function<void(const RunTerms&)> refuse = {};
  // What whoever starts such a run should be told, if anything; none: never anything.
  std::function<std::optional<std::string>(const RunTerms&)> notice = {};
  Travels travels = Travels::own_way;
};

struct StrategyParameter {
  std::string_view key, standard, description;  // `standard`: the value if none is given
  std::string_view alias;                       // may be empty
};

// By what ranks exchange: the all-reduce that the crew names; servers whose optimiser steps, each
// with a part of the parameters; servers that hold numbers, while workers' optimisers step all
// parameters at once; or their own messages.
enum class Exchange { collective, stepping_servers, holding_servers, peers };

// What becomes of the steps that m workers take at the same time: the model moves by their mean, as
// by one step of a batch m times as large; or by their sum, as by m steps.
enum class Steps { averaged, added };

// All that is to be known of a strategy before it is made: one answer for all who ask.
struct StrategyRow {
  std::string_view name, alias = {};  // the alias may be empty
  Exchange exchange = Exchange::peers;
  Pace pace = Pace::together;
  Steps steps = Steps::averaged;
  std::string_view description = {};
  std::span<const StrategyParameter> parameters = {};
  // Options has a value for each parameter. UsageError if one can't be.
  StrategyMaker (*maker)(const Options&) = nullptr;

  bool has_servers() const {
    return exchange == Exchange::stepping_servers || exchange == Exchange::holding_servers;
  }
  bool goes_apart() const { return pace == Pace::apart; }
  bool goes_in_rounds() const { return pace == Pace::rounds; }
  // Do the others go on when a worker dies?
  bool goes_on() const { return pace != Pace::together; }
};

std::span<const StrategyRow> strategies();

// All of these take a spec, NAME:key=value,…, and throw a UsageError that says what would be right:
// unknown names and keys get the valid ones and the nearest.
//
// By name or alias; ignores parameters.
const StrategyRow& strategy_named(std::string_view spec, const StrategyRow* own = nullptr);
// With the strategy's own name and keys and every parameter's value: the same spec for all ways to
// write it.
std::string full_spec(std::string_view spec, const StrategyRow* own = nullptr);
// The value of every parameter.
Options strategy_options(std::string_view spec, const StrategyRow* own = nullptr);
Travels travels_of(std::string_view spec, const StrategyRow* own = nullptr);
// Before anything is started: can there be such a strategy in such a run? Also refuses for it.
void check_strategy(std::string_view spec, const RunTerms&, const StrategyRow* own = nullptr);
// What whoever starts such a run should be told of the strategy.
std::optional<std::string> notice_of_strategy(std::string_view spec, const RunTerms&,
                                              const StrategyRow* own = nullptr);
// On a rank. InternalError if what is made does not keep the pace that its row says.
std::unique_ptr<Strategy> make_strategy(std::string_view spec, const Crew&,
                                        const StrategyRow* own = nullptr);

#define STRATEGY(function, ...) StrategyMaker function(const Options&);
#include "strategies/strategies.def"
#undef STRATEGY

}  // namespace lockstep
