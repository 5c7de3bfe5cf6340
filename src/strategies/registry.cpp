#include "strategies/registry.h"

#include <algorithm>
#include <array>

#include "core/names.h"

namespace lockstep {
namespace {

template <class... Rows>
constexpr std::array<StrategyParameter, sizeof...(Rows)> rows(Rows... row) {
  return {row...};
}

#define PARAMETER(key, standard, description, alias) \
  StrategyParameter { key, standard, description, alias }
#define STRATEGY(function, name, alias, exchange, pace, steps, description, ...) \
  constexpr auto function##_parameters = rows(__VA_ARGS__);
#include "strategies/strategies.def"
#undef STRATEGY
#undef PARAMETER

constexpr StrategyRow kRows[] = {
#define STRATEGY(function, name, alias, exchange, pace, steps, description, ...) \
  {name,         alias,       Exchange::exchange,    Pace::pace,                 \
   Steps::steps, description, function##_parameters, function},
#include "strategies/strategies.def"
#undef STRATEGY
};

void check_crew(const StrategyRow& row, int workers, int servers, bool colocated) {
  if (workers < 1) throw UsageError(fmt::format("{} workers: at least 1 is needed", workers));
  if (!row.has_servers() && servers != 0)
    throw UsageError(
        fmt::format("strategy '{}' has no servers, and {} are asked for: leave the "
                    "number of servers away",
                    row.name, servers));
  if (!row.has_servers()) return;
  if (row.goes_in_rounds() && (servers != 1 || colocated))
    throw UsageError(fmt::format(
        "strategy '{}' with {} {} servers: it has one manager, a rank of its own; leave "
        "servers and their placement away",
        row.name, servers, colocated ? "co-located" : "dedicated"));
  if (servers < 1)
    throw UsageError(
        fmt::format("strategy '{}' with {} servers: at least 1 is needed", row.name, servers));
  if (colocated && servers > workers)
    throw UsageError(fmt::format("{} servers co-located with {} workers: at most one with each",
                                 servers, workers));
  // A worker that computes can't answer: there the servers are ranks of their own on its host.
  if (colocated && row.goes_apart())
    throw InternalError(fmt::format("the servers of '{}' are ranks of their own", row.name));
}

StrategyMaker maker_of(std::string_view spec) {
  return strategy_named(spec).maker(strategy_options(spec));
}

}  // namespace

std::span<const StrategyRow> strategies() { return kRows; }

const StrategyRow& strategy_named(std::string_view spec) {
  return row_named("strategy", Options::name_in(spec), kRows);
}

std::string full_spec(std::string_view spec) {
  const StrategyRow& row = strategy_named(spec);
  std::vector<std::string_view> keys;
  for (const StrategyParameter& p : row.parameters) {
    keys.push_back(p.key);
    if (!p.alias.empty()) keys.push_back(p.alias);
  }
  const Options given(spec, keys);
  std::string full(row.name);
  for (const StrategyParameter& p : row.parameters) {
    const bool by_alias = !p.alias.empty() && given.has(p.alias);
    if (by_alias && given.has(p.key))
      throw UsageError(fmt::format("'{}' and '{}' in '{}' are the same parameter: give one", p.key,
                                   p.alias, spec));
    full += fmt::format("{}{}={}", full.size() == row.name.size() ? ':' : ',', p.key,
                        given.text(by_alias ? p.alias : p.key, std::string(p.standard)));
  }
  return full;
}

Options strategy_options(std::string_view spec) {
  std::vector<std::string_view> keys;
  for (const StrategyParameter& p : strategy_named(spec).parameters) keys.push_back(p.key);
  return Options(full_spec(spec), keys);
}

void check_strategy(std::string_view spec, int workers, int servers, bool colocated) {
  check_crew(strategy_named(spec), workers, servers, colocated);
  maker_of(spec);
}

std::unique_ptr<Strategy> make_strategy(std::string_view spec, const Crew& crew) {
  check_crew(strategy_named(spec), crew.workers, crew.servers, crew.colocated);
  if (crew.rank.size() != crew.ranks())
    throw UsageError(fmt::format("a job of {} ranks for {} workers and {} {} servers",
                                 crew.rank.size(), crew.workers, crew.servers,
                                 crew.colocated ? "co-located" : "dedicated"));
  if (!crew.collective.sent)
    throw InternalError(
        fmt::format("a crew with collective `{}`: ask choose() which one it stands "
                    "for",
                    crew.collective.name));
  return maker_of(spec)(crew);
}

}  // namespace lockstep
