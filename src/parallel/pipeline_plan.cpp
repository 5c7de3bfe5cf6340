#include "parallel/pipeline_plan.h"

#include <algorithm>

#include "core/error.h"
#include "core/units.h"

namespace lockstep {
namespace {

// A cut, and what each worker needs.
struct Candidate {
  BlockCounts counts;
  std::vector<StageCosts> stages;
  std::vector<std::uint64_t> worker_bytes;

  int largest() const {
    return static_cast<int>(std::ranges::max_element(worker_bytes) - worker_bytes.begin());
  }
  bool fits(std::uint64_t limit_bytes) const { return worker_bytes[largest()] <= limit_bytes; }
  std::string needs() const {
    return fmt::format("needs {} on worker {}",
                       bytes_in_words(static_cast<double>(worker_bytes[largest()])), largest());
  }
};

class Planner {
 public:
  Planner(const NetworkCosts& network, const PipelineSchedule& schedule, const CutTerms& terms)
      : schedule_(schedule),
        layout_(schedule.layout()),
        terms_(terms),
        blocks_(network.blocks.size()),
        partitioner_(network, terms, stashes(schedule)) {}

  Candidate by_hand(const PlanRequest& request) const {
    Candidate cut = candidate(partitioner_.read(request.balance));
    if (const auto limit = request.memory_limit_bytes; limit && !cut.fits(*limit))
      throw UsageError(fmt::format("the cut {} {}, and the limit is {}: {}", in_words(cut.counts),
                                   cut.needs(), words(*limit), what_fits(*limit)));
    return cut;
  }

  Candidate best(Balance balance, std::optional<std::uint64_t> limit, std::string& notice) const {
    const Candidate first = candidate(*partitioner_.best(balance));
    if (!limit || first.fits(*limit)) return first;
    // Where workers hold several stages, the cut with the smallest stages need not be the one with
    // the smallest workers: any that fits will do.
    auto cut = best_within(balance, *limit);
    if (!cut) cut = best_within(Balance::time, *limit);
    if (!cut) throw UsageError(what_fits(*limit));
    notice = fmt::format("the best cut by {}, {}, {}, and the limit is {}: {}",
                         balance == Balance::time ? "time" : "memory", in_words(first.counts),
                         first.needs(), words(*limit), what_fits(*limit));
    return *cut;
  }

  std::vector<StageLink> links(const BlockCounts& counts) const {
    return partitioner_.links(counts);
  }

 private:
  static std::string words(std::uint64_t bytes) {
    return bytes_in_words(static_cast<double>(bytes));
  }

  Candidate candidate(BlockCounts counts) const {
    Candidate cut{std::move(counts), {}, {}};
    cut.stages = partitioner_.stages(cut.counts);
    std::vector<StashBytes> stash;
    for (const StageCosts& stage : cut.stages) stash.push_back(stage.stash);
    cut.worker_bytes = peak_stash_bytes(schedule_, stash);
    for (int worker = 0; worker < schedule_.workers; ++worker)
      for (const Role role : layout_.roles_of(worker))
        cut.worker_bytes[worker] +=
            parameter_memory_bytes(cut.stages[role.stage].parameter_bytes, terms_);
    return cut;
  }

  // A worker that holds several stages needs more than its largest, so each try allows less a
  // stage.
  std::optional<Candidate> best_within(Balance balance, std::uint64_t limit) const {
    std::uint64_t most = limit;
    while (const auto counts = partitioner_.best(balance, most)) {
      Candidate cut = candidate(*counts);
      if (cut.fits(limit)) return cut;
      most = std::ranges::max(cut.stages, {}, &StageCosts::memory_bytes).memory_bytes - 1;
    }
    Candidate smallest = candidate(*partitioner_.best(Balance::memory));
    if (smallest.fits(limit)) return smallest;
    return {};
  }

  std::string what_fits(std::uint64_t limit) const {
    const bool one_each = schedule_.workers == schedule_.stages * schedule_.replicas;
    const std::string all = fmt::format("{:.0f} cuts of {} blocks into {} stages",
                                        partitioner_.count(), blocks_, schedule_.stages);
    const auto cut = best_within(Balance::time, limit);
    if (!cut) {
      const Candidate smallest = candidate(*partitioner_.best(Balance::memory));
      return fmt::format("{} the {} fits in {}: the smallest, {}, {}",
                         one_each ? "none of" : "none was found among", all, words(limit),
                         in_words(smallest.counts), smallest.needs());
    }
    const std::string fastest =
        fmt::format("the fastest that fits, {}, {}", in_words(cut->counts), cut->needs());
    return one_each ? fmt::format("{:.0f} of the {} fit, and {}", partitioner_.count(limit), all,
                                  fastest)
                    : fastest;
  }

  const PipelineSchedule& schedule_;
  Layout layout_;
  CutTerms terms_;
  std::size_t blocks_;
  Partitioner partitioner_;
};

}  // namespace

PipelinePlan plan_pipeline(const NetworkCosts& network, const PipelineSchedule& schedule,
                           const CutTerms& terms, const PlanRequest& request) {
  const Planner planner(network, schedule, terms);
  PipelinePlan plan;
  Candidate cut;
  if (request.balance == "time")
    cut = planner.best(Balance::time, request.memory_limit_bytes, plan.notice);
  else if (request.balance == "memory")
    cut = planner.best(Balance::memory, request.memory_limit_bytes, plan.notice);
  else
    cut = planner.by_hand(request);
  plan.schedule = schedule;
  plan.counts = cut.counts;
  plan.stages = std::move(cut.stages);
  plan.worker_bytes = std::move(cut.worker_bytes);
  std::vector<PassTimes> times;
  for (const StageCosts& stage : plan.stages) times.push_back(stage.times);
  plan.forecast = forecast(schedule, times, planner.links(plan.counts));
  return plan;
}

std::string in_words(const PipelinePlan& plan, const NetworkCosts& network, std::uint64_t batch) {
  const auto words = [](std::uint64_t bytes) { return bytes_in_words(static_cast<double>(bytes)); };
  const Layout layout = plan.schedule.layout();
  const std::vector<Stash> kept = stashes(plan.schedule);
  std::string text =
      fmt::format("{:>5} {:>6}  {:<28} {:>10} {:>15} {:>10} {:>10} {:>10}\n", "stage", "worker",
                  "blocks", "parameters", "activations", "received", "of skips", "time");
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const StageCosts& stage = plan.stages[s];
    const std::string blocks = fmt::format(
        "{}..{} {}..{}", stage.blocks.begin, stage.blocks.end() - 1,
        network.blocks[stage.blocks.begin].name, network.blocks[stage.blocks.end() - 1].name);
    text += fmt::format(
        "{:>5} {:>6}  {:<28} {:>10} {:>15} {:>10} {:>10} {:>10}\n", s,
        layout.rank_of({0, static_cast<int>(s)}), blocks, words(stage.parameter_bytes),
        fmt::format("{} x {}", kept[s].activations, words(stage.stash.activations)),
        words(stage.bytes_in), words(stage.skip_bytes_in), time_in_words(stage.times.total_s()));
  }
  const double samples =
      static_cast<double>(batch) * plan.schedule.replicas * plan.schedule.batches;
  text += fmt::format(
      "a step of {:.0f} samples takes {}, {:.1f} samples/s, bubble {:.1f} %; a worker needs at "
      "most "
      "{}\n",
      samples, time_in_words(plan.forecast.makespan_s), samples / plan.forecast.makespan_s,
      100 * plan.forecast.bubble(), words(std::ranges::max(plan.worker_bytes)));
  if (!plan.notice.empty()) text += plan.notice + "\n";
  return text;
}

}  // namespace lockstep
