#include "parallel/partition.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "core/error.h"
#include "core/units.h"

namespace lockstep {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

PassTimes operator+(const PassTimes& a, const PassTimes& b) {
  return {a.forward_s + b.forward_s, a.backward_inputs_s + b.backward_inputs_s,
          a.backward_weights_s + b.backward_weights_s};
}

PassTimes operator-(const PassTimes& a, const PassTimes& b) {
  return {a.forward_s - b.forward_s, a.backward_inputs_s - b.backward_inputs_s,
          a.backward_weights_s - b.backward_weights_s};
}

struct Cheapest {
  double cost = kInfinity;
  BlockCounts counts;  // none if every cut costs infinity
};
// The cut of `blocks` into `stages` for which the sum of cost(stage, begin, end), or the largest of
// them, as `combine` says, is least.
Cheapest cheapest(int stages, int blocks, const std::function<double(int, int, int)>& cost,
                  double (*combine)(double, double)) {
  // By stages and blocks: the cost of cutting that many of the first, and where the last one
  // begins.
  std::vector<std::vector<double>> best(stages + 1, std::vector<double>(blocks + 1, kInfinity));
  std::vector<std::vector<int>> begin(stages + 1, std::vector<int>(blocks + 1, 0));
  best[0][0] = 0;
  for (int s = 1; s <= stages; ++s)
    for (int end = s; end <= blocks - (stages - s); ++end)
      for (int b = s - 1; b < end; ++b) {
        if (best[s - 1][b] == kInfinity) continue;
        const double with = combine(best[s - 1][b], cost(s - 1, b, end));
        if (with < best[s][end]) {
          best[s][end] = with;
          begin[s][end] = b;
        }
      }
  Cheapest found{best[stages][blocks], {}};
  if (found.cost == kInfinity) return found;
  found.counts.resize(stages);
  for (int s = stages, end = blocks; s > 0; end = begin[s--][end])
    found.counts[s - 1] = end - begin[s][end];
  return found;
}

bool fits(const StageCosts& costs, std::optional<std::uint64_t> most_bytes) {
  return !most_bytes || costs.memory_bytes <= *most_bytes;
}

double larger(double a, double b) { return std::max(a, b); }
double sum(double a, double b) { return a + b; }

}  // namespace

std::uint64_t parameter_memory_bytes(std::uint64_t parameter_bytes, const CutTerms& terms) {
  return static_cast<std::uint64_t>(static_cast<double>(parameter_bytes) *
                                    terms.bytes_per_parameter_byte);
}

std::string in_words(const BlockCounts& counts) {
  return fmt::format("{}", fmt::join(counts, ","));
}

Partitioner::Partitioner(NetworkCosts network, CutTerms terms, std::vector<Stash> stashes)
    : network_(std::move(network)),
      terms_(terms),
      stashes_(std::move(stashes)),
      stages_(static_cast<int>(stashes_.size())),
      blocks_(static_cast<int>(network_.blocks.size())) {
  if (stages_ < 1 || stages_ > blocks_)
    throw UsageError(fmt::format(
        "{} stages of a network of {} blocks: there must be 1 to {}, since each has a block",
        stages_, blocks_, blocks_));
  for (const NetworkSkip& skip : network_.skips)
    if (skip.from < 0 || skip.to <= skip.from || skip.to >= blocks_)
      throw UsageError(fmt::format(
          "the skip '{}' goes from block {} to block {} of {}: it must go from a block to a later "
          "one",
          skip.name, skip.from, skip.to, blocks_));
  times_.emplace_back();
  parameter_bytes_.push_back(0);
  activation_bytes_.push_back(0);
  for (const NetworkBlock& block : network_.blocks) {
    times_.push_back(times_.back() + block.times);
    parameter_bytes_.push_back(parameter_bytes_.back() + block.parameter_bytes);
    activation_bytes_.push_back(activation_bytes_.back() + block.activation_bytes);
  }
}

StageCosts Partitioner::stage(int stage, int begin, int end) const {
  StageCosts costs;
  costs.blocks = {static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)};
  costs.times = times_[end] - times_[begin];
  costs.parameter_bytes = parameter_bytes_[end] - parameter_bytes_[begin];
  for (const NetworkSkip& skip : network_.skips) {
    const bool made = skip.from >= begin && skip.from < end;
    const bool needed = skip.to >= begin && skip.to < end;
    if (made && !needed) costs.skip_bytes_out += skip.bytes;
    if (needed && !made) costs.skip_bytes_in += skip.bytes;
  }
  costs.bytes_in = costs.skip_bytes_in;
  costs.bytes_out = costs.skip_bytes_out;
  if (begin > 0) costs.bytes_in += network_.blocks[begin - 1].output_bytes;
  if (end < blocks_) costs.bytes_out += network_.blocks[end - 1].output_bytes;
  costs.stash.activations = activation_bytes_[end] - activation_bytes_[begin];
  costs.stash.inputs = costs.bytes_in + (begin == 0 ? network_.input_bytes : 0);

  costs.step_s = costs.times.total_s() +
                 terms_.seconds_per_byte * static_cast<double>(costs.bytes_in + costs.bytes_out);
  const Stash& stash = stashes_[stage];
  costs.memory_bytes = parameter_memory_bytes(costs.parameter_bytes, terms_) +
                       stash.activations * costs.stash.activations +
                       stash.inputs * costs.stash.inputs;
  return costs;
}

std::vector<StageCosts> Partitioner::stages(const BlockCounts& counts) const {
  std::vector<StageCosts> all;
  int begin = 0;
  for (int s = 0; s < stages_; begin += counts[s++])
    all.push_back(stage(s, begin, begin + counts[s]));
  return all;
}

std::vector<StageLink> Partitioner::links(const BlockCounts& counts) const {
  std::vector<int> stage_of;  // by block
  for (int s = 0; s < stages_; ++s) stage_of.insert(stage_of.end(), counts[s], s);
  std::vector<StageLink> all;
  const auto add = [&](int from, int to, std::uint64_t bytes) {
    const double message_s =
        terms_.latency_s + terms_.seconds_per_byte * static_cast<double>(bytes);
    all.push_back({from, to, message_s, bytes});
  };
  for (int b = 1; b < blocks_; ++b)
    if (stage_of[b] != stage_of[b - 1])
      add(stage_of[b - 1], stage_of[b], network_.blocks[b - 1].output_bytes);
  for (const NetworkSkip& skip : network_.skips)
    if (stage_of[skip.from] != stage_of[skip.to])
      add(stage_of[skip.from], stage_of[skip.to], skip.bytes);
  return all;
}

std::optional<BlockCounts> Partitioner::best(Balance balance,
                                             std::optional<std::uint64_t> most_bytes) const {
  const auto cost = [&](const StageCosts& costs) {
    if (!fits(costs, most_bytes)) return kInfinity;
    return balance == Balance::time ? costs.step_s : static_cast<double>(costs.memory_bytes);
  };
  const Cheapest first = cheapest(
      stages_, blocks_, [&](int s, int begin, int end) { return cost(stage(s, begin, end)); },
      larger);
  if (first.counts.empty()) return {};
  // Once more, for the fewest bytes among those that are as good.
  return cheapest(
             stages_, blocks_,
             [&](int s, int begin, int end) {
               const StageCosts costs = stage(s, begin, end);
               return cost(costs) <= first.cost ? static_cast<double>(costs.bytes_in) : kInfinity;
             },
             sum)
      .counts;
}

double Partitioner::count(std::optional<std::uint64_t> most_bytes) const {
  std::vector<double> ways(blocks_ + 1, 0);  // to cut the first blocks into the stages so far
  ways[0] = 1;
  for (int s = 0; s < stages_; ++s) {
    std::vector<double> further(blocks_ + 1, 0);
    for (int begin = 0; begin < blocks_; ++begin)
      for (int end = begin + 1; ways[begin] > 0 && end <= blocks_; ++end)
        if (fits(stage(s, begin, end), most_bytes)) further[end] += ways[begin];
    ways = further;
  }
  return ways[blocks_];
}

BlockCounts Partitioner::read(std::string_view text) const {
  BlockCounts counts;
  int blocks = 0;
  for (const std::string_view part : cut_at_commas(text)) {
    counts.push_back(
        parse_integer(fmt::format("each stage of the cut '{}'", text), part, 1, 1 << 20));
    blocks += counts.back();
  }
  if (std::ssize(counts) != stages_)
    throw UsageError(fmt::format("the cut '{}' has {} stages, and the pipeline {}", text,
                                 counts.size(), stages_));
  if (blocks != blocks_)
    throw UsageError(
        fmt::format("the cut '{}' has {} blocks, and the network {}", text, blocks, blocks_));
  return counts;
}

}  // namespace lockstep
