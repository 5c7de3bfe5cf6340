#include "parallel/forecast.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"

namespace lockstep {
namespace {

void check(const PipelineSchedule& schedule, std::size_t times, std::span<const StageLink> links) {
  if (std::ssize(schedule.orders) != schedule.workers)
    throw UsageError(fmt::format("a schedule of {} workers has orders for {}", schedule.workers,
                                 schedule.orders.size()));
  if (times != static_cast<std::size_t>(schedule.stages))
    throw UsageError(
        fmt::format("a pipeline of {} stages was given the times of {}", schedule.stages, times));
  for (const StageLink& link : links)
    if (link.from < 0 || link.to <= link.from || link.to >= schedule.stages)
      throw UsageError(fmt::format(
          "a link from stage {} to stage {} of {}: it must go from a stage to a later one",
          link.from, link.to, schedule.stages));
}

// Begins every action as soon as its worker is free and all it needs is there.
void run(const PipelineSchedule& schedule, std::span<const PassTimes> times, StageProgress done,
         Forecast& forecast) {
  forecast.workers.resize(schedule.orders.size());
  std::size_t left = 0;
  for (const auto& order : schedule.orders) left += order.size();
  while (left > 0) {
    const std::size_t before = left;
    for (std::size_t worker = 0; worker < schedule.orders.size(); ++worker) {
      const auto& order = schedule.orders[worker];
      auto& timed = forecast.workers[worker];
      while (timed.size() < order.size()) {
        const Action& action = order[timed.size()];
        const double ready_s = done.ready_s(action);
        if (std::isinf(ready_s)) break;
        const double begin_s = std::max(ready_s, timed.empty() ? 0 : timed.back().end_s);
        timed.push_back({action, begin_s, begin_s + times[action.stage].of(action.pass)});
        done.add(action, timed.back().end_s);
        --left;
      }
    }
    if (left < before) continue;
    for (std::size_t worker = 0; worker < schedule.orders.size(); ++worker)
      if (const std::size_t next = forecast.workers[worker].size();
          next < schedule.orders[worker].size())
        throw InternalError(fmt::format("worker {} would wait forever for the {}", worker,
                                        in_words(schedule.orders[worker][next])));
  }
}

}  // namespace

double PassTimes::of(StagePass pass) const {
  switch (pass) {
    case StagePass::forward:
    case StagePass::recompute:
      return forward_s;
    case StagePass::backward_inputs:
      return backward_inputs_s;
    case StagePass::backward_weights:
      return backward_weights_s;
    case StagePass::backward:
      break;
  }
  return backward_s();
}

double Forecast::bubble() const {
  if (makespan_s == 0) return 0;
  return std::reduce(idle_s.begin(), idle_s.end()) / (makespan_s * std::ssize(idle_s));
}

Forecast forecast(const PipelineSchedule& schedule, std::span<const PassTimes> times,
                  std::span<const StageLink> links) {
  check(schedule, times.size(), links);
  const Layout layout = schedule.layout();
  Forecast forecast;
  std::vector<StageLink> between(links.begin(), links.end());
  for (StageLink& link : between) {
    // Replicas lie the same way or mirrored, so two stages share a worker in all of them or in
    // none.
    const bool local = layout.rank_of({0, link.from}) == layout.rank_of({0, link.to});
    if (local) link.message_s = 0;
    const std::uint64_t messages = local ? 0 : 2ull * schedule.replicas * schedule.micros;
    forecast.traffic.push_back({link.from, link.to, messages, messages * link.bytes});
  }
  run(schedule, times, {schedule.replicas, schedule.stages, schedule.micros, between}, forecast);
  for (const auto& timed : forecast.workers)
    if (!timed.empty()) forecast.makespan_s = std::max(forecast.makespan_s, timed.back().end_s);
  for (const auto& timed : forecast.workers) {
    double busy_s = 0;
    for (const TimedAction& one : timed) busy_s += one.end_s - one.begin_s;
    forecast.idle_s.push_back(forecast.makespan_s - busy_s);
  }
  return forecast;
}

}  // namespace lockstep
