#include "strategies/registry.h"

#include <algorithm>
#include <array>
#include <ranges>

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

StrategyMaker maker_of(std::string_view spec, const StrategyRow* own) {
  return strategy_named(spec, own).maker(strategy_options(spec, own));
}

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

// Of servers that step, each its own part of the parameters.
void check_layers(const StrategyRow& row, const RunTerms& run) {
  if (!run.needs_whole_layers || run.servers < 2 || row.exchange != Exchange::stepping_servers)
    return;
  throw UsageError(
      fmt::format("--optimizer {} needs whole layers, and with {} each of {} servers steps its own "
                  "part of the parameters, wherever that cuts a layer: give --servers 1, another "
                  "optimizer, or ssp or easgd, whose workers step all parameters",
                  Options::name_in(run.optimizer), row.name, run.servers));
}

}  // namespace

std::span<const StrategyRow> strategies() { return kRows; }

const StrategyRow& strategy_named(std::string_view spec, const StrategyRow* own) {
  std::vector<const StrategyRow*> rows;
  if (own) rows.push_back(own);
  for (const StrategyRow& row : kRows) rows.push_back(&row);
  const auto row_at = [](const StrategyRow* row) -> const StrategyRow& { return *row; };
  return row_named("strategy", Options::name_in(spec), std::views::transform(rows, row_at));
}

std::string full_spec(std::string_view spec, const StrategyRow* own) {
  const StrategyRow& row = strategy_named(spec, own);
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

Options strategy_options(std::string_view spec, const StrategyRow* own) {
  std::vector<std::string_view> keys;
  for (const StrategyParameter& p : strategy_named(spec, own).parameters) keys.push_back(p.key);
  return Options(full_spec(spec, own), keys);
}

Travels travels_of(std::string_view spec, const StrategyRow* own) {
  return maker_of(spec, own).travels;
}

void check_strategy(std::string_view spec, const RunTerms& run, const StrategyRow* own) {
  const StrategyRow& row = strategy_named(spec, own);
  check_crew(row, run.workers, run.servers, run.colocated);
  check_layers(row, run);
  if (const StrategyMaker maker = maker_of(spec, own); maker.refuse) maker.refuse(run);
}

std::optional<std::string> notice_of_strategy(std::string_view spec, const RunTerms& run,
                                              const StrategyRow* own) {
  const StrategyMaker maker = maker_of(spec, own);
  return maker.notice ? maker.notice(run) : std::nullopt;
}

std::unique_ptr<Strategy> make_strategy(std::string_view spec, const Crew& crew,
                                        const StrategyRow* own) {
  const StrategyRow& row = strategy_named(spec, own);
  check_crew(row, crew.workers, crew.servers, crew.colocated);
  if (crew.rank.size() != crew.ranks())
    throw UsageError(fmt::format("a job of {} ranks for {} workers and {} {} servers",
                                 crew.rank.size(), crew.workers, crew.servers,
                                 crew.colocated ? "co-located" : "dedicated"));
  auto strategy = maker_of(spec, own).make(crew);
  if (strategy->pace() != row.pace)
    throw InternalError(
        fmt::format("strategy '{}' does not keep the pace that its row says: one that goes apart "
                    "has the part Apart, one that goes in rounds is a RoundStrategy, and one that "
                    "goes together is neither",
                    row.name));
  if (row.has_servers() && !crew.colocated && !strategy->parts().rounds &&
      !strategy->parts().serving)
    throw InternalError(
        fmt::format("strategy '{}' has servers by its row, and not the part Serving", row.name));
  return strategy;
}

}  // namespace lockstep
