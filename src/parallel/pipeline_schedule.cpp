#include "parallel/pipeline_schedule.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "core/names.h"
#include "core/units.h"
#include "parallel/stage_progress.h"

namespace lockstep {
namespace {

constexpr PipelineScheduleRow kRows[] = {
#define PIPELINE_SCHEDULE(function, name, alias, defaults, description) \
  {name, alias, defaults, description, function##_schedule},
#include "parallel/schedules/pipeline_schedules.def"
#undef PIPELINE_SCHEDULE
};

constexpr int kMostWorkers = 65536, kMostMicros = 65536;

// The orders of the stages that one worker holds, as far as they are not taken yet.
class Merged {
 public:
  void add(std::vector<Action> order) { left_.push_back({std::move(order)}); }
  bool empty() const { return std::ranges::all_of(left_, &Left::empty); }

  // The next action that can begin by `tick`, taken off; nullptr if none can.
  const Action* take(const StageProgress& done, double tick) {
    Left* best = nullptr;
    for (Left& left : left_)
      if (!left.empty() && done.ready_s(left.head()) <= tick &&
          (!best || goes_before(left.head(), best->head())))
        best = &left;
    return best ? &best->order[best->taken++] : nullptr;
  }

 private:
  struct Left {
    std::vector<Action> order;
    std::size_t taken = 0;
    bool empty() const { return taken == order.size(); }
    const Action& head() const { return order[taken]; }
  };

  static bool goes_before(const Action& a, const Action& b) {
    const auto is_forward = [](const Action& x) { return x.pass == StagePass::forward; };
    if (is_forward(a) != is_forward(b)) return is_forward(b);
    return a.micro < b.micro;
  }

  std::vector<Left> left_;
};

}  // namespace

std::string in_words(const Action& action) {
  static constexpr std::array kNames = {"forward", "recomputation", "backward",
                                        "backward of the inputs", "backward of the weights"};
  std::string text =
      fmt::format("{} of micro-batch {} at stage {}", kNames[static_cast<std::size_t>(action.pass)],
                  action.micro, action.stage);
  if (action.replica > 0) text += fmt::format(" of replica {}", action.replica);
  return text;
}

Layout PipelineSchedule::layout(int pipelines) const {
  switch (placement) {
    case StagePlacement::interleaved:
      return Layout::interleaved(pipelines, stages, workers);
    case StagePlacement::folded:
      return Layout::folded(pipelines, stages);
    case StagePlacement::gems:
      return Layout::gems(2 * pipelines, stages);
    case StagePlacement::grid:
      break;
  }
  return Layout::grid(pipelines, stages);
}

Slice PipelineSchedule::samples_of(std::size_t all, int replica, int micro) const {
  const int of_batch = micros / batches;
  const Slice batch = chunk(all, replicas * batches, replica * batches + micro / of_batch);
  const Slice part = chunk(batch.count, of_batch, micro % of_batch);
  return {batch.begin + part.begin, part.count};
}

std::span<const PipelineScheduleRow> pipeline_schedules() { return kRows; }

PipelineSchedule pipeline_schedule(std::string_view spec, int workers) {
  if (workers < 1 || workers > kMostWorkers)
    throw UsageError(
        fmt::format("a pipeline of {} workers: there must be 1 to {}", workers, kMostWorkers));
  const auto& row =
      row_named("schedule of a pipeline", Options::name_in(spec), pipeline_schedules());
  return row.make(Options::with_defaults(spec, row.defaults), workers);
}

PipelineRequest read_pipeline(std::string_view text) {
  // Which keys there are depends on the schedule, so it is looked for among the keys of all.
  std::vector<std::string_view> keys = {"schedule"};
  for (const auto& row : pipeline_schedules())
    for (const std::string_view key : keys_in(row.defaults)) keys.push_back(key);
  std::ranges::sort(keys);
  keys.erase(std::ranges::unique(keys).begin(), keys.end());
  const Options options(text, keys);
  PipelineRequest request;
  request.workers = parse_integer("--pipeline", options.name(), 1, kMostWorkers);
  request.spec = options.text("schedule", "1f1b");
  const std::size_t name = request.spec.size();
  for (const std::string_view key : keys)
    if (key != "schedule" && options.has(key))
      request.spec +=
          fmt::format("{}{}={}", request.spec.size() == name ? ':' : ',', key, options.text(key));
  return request;
}

int micros_of(const Options& options, int workers) {
  const int micros = parse_integer(fmt::format("microbatches of '{}'", options.name()),
                                   options.text("microbatches"), 0, kMostMicros);
  return micros > 0 ? micros : 4 * workers;
}

PipelineSchedule of_stages(int workers, int micros, bool folded, const StageOrder& order) {
  PipelineSchedule schedule;
  schedule.workers = workers;
  schedule.stages = folded ? 2 * workers : workers;
  schedule.micros = micros;
  schedule.placement = folded ? StagePlacement::folded : StagePlacement::grid;
  schedule.orders.resize(workers);
  if (!folded) {
    for (int stage = 0; stage < workers; ++stage)
      schedule.orders[stage] = order(stage, schedule.stages);
    return schedule;
  }
  const Layout layout = schedule.layout();
  std::vector<Merged> left(workers);
  for (int stage = 0; stage < schedule.stages; ++stage)
    left[layout.rank_of({0, stage})].add(order(stage, schedule.stages));
  StageProgress done(1, schedule.stages, micros);
  for (double tick = 0; !std::ranges::all_of(left, &Merged::empty); ++tick) {
    bool any = false;
    for (int worker = 0; worker < workers; ++worker)
      if (const Action* action = left[worker].take(done, tick)) {
        schedule.orders[worker].push_back(*action);
        done.add(*action, tick + 1);
        any = true;
      }
    if (!any) throw InternalError("the orders of a folded pipeline's stages wait for each other");
  }
  return schedule;
}

}  // namespace lockstep
