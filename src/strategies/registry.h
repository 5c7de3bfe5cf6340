// Strategies by name. A new one is a file of its own with a StrategyMaker, and a line in
// strategies.def.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/options.h"
#include "strategies/strategy.h"

namespace lockstep {

// Makes the strategy on one rank, from parameters that were found good.
using StrategyMaker = std::function<std::unique_ptr<Strategy>(const Crew&)>;

struct StrategyParameter {
  std::string_view key, standard, description;  // `standard`: the value if none is given
  std::string_view alias;                       // may be empty
};

// By what ranks exchange: the all-reduce that the crew names; servers whose optimiser steps, each
// with a part of the parameters; servers that hold numbers, while workers' optimisers step all
// parameters at once; or their own messages.
enum class Exchange { collective, stepping_servers, holding_servers, peers };

// How workers keep pace: all take each step together; or each goes at its own, exchanges when it
// comes to it, and goes on without those that are gone; or in rounds, in which a manager hands out
// tasks and each worker works through its own alone (see round_strategy.h).
enum class Pace { together, apart, rounds };

// What becomes of the steps that m workers take at the same time: the model moves by their mean, as
// by one step of a batch m times as large; or by their sum, as by m steps.
enum class Steps { averaged, added };

struct StrategyRow {
  std::string_view name, alias;  // the alias may be empty
  Exchange exchange;
  Pace pace;
  Steps steps;
  std::string_view description;
  std::span<const StrategyParameter> parameters;
  // Options has a value for each parameter. UsageError if one can't be.
  StrategyMaker (*maker)(const Options&);

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
const StrategyRow& strategy_named(std::string_view spec);  // by name or alias; ignores parameters
// With the strategy's own name and keys and every parameter's value: the same spec for all ways to
// write it.
std::string full_spec(std::string_view spec);
// The value of every parameter.
Options strategy_options(std::string_view spec);
// Before anything is started: can there be such a strategy for such a crew?
void check_strategy(std::string_view spec, int workers, int servers, bool colocated);
// The same, on a rank.
std::unique_ptr<Strategy> make_strategy(std::string_view spec, const Crew&);

#define STRATEGY(function, ...) StrategyMaker function(const Options&);
#include "strategies/strategies.def"
#undef STRATEGY

}  // namespace lockstep
