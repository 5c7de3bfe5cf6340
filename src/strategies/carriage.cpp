#include "strategies/carriage.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "compression/registry.h"
#include "core/error.h"
#include "core/names.h"
#include "strategies/bucket_mean.h"
#include "strategies/compressed_push.h"

namespace lockstep {
namespace {

constexpr std::string_view kOverlaps[] = {"none", "wfbp", "merged"};

bool overlaps(const Carriage& carriage) { return carriage.overlap != "none"; }

bool cuts(const Carriage& carriage) { return overlaps(carriage) || !carriage.buckets.empty(); }

bool is_mean(Travels travels) {
  return travels == Travels::mean_of_gradients || travels == Travels::mean_of_weights;
}

std::vector<std::size_t> counts_in(const std::string& plan) {
  std::vector<std::size_t> counts;
  for (const std::string_view text : cut_at_commas(plan)) {
    std::size_t count = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
    if (error != std::errc() || end != text.data() + text.size() || count == 0)
      throw UsageError(fmt::format(
          "--buckets {}: give how many numbers each bucket has, in the order in which they are "
          "sent, as in 5130,21840",
          plan));
    counts.push_back(count);
  }
  return counts;
}

void check_values(const Carriage& carriage) {
  index_named("overlap", carriage.overlap, kOverlaps);
  constexpr double kMostMib = 1 << 20;
  for (const auto& [flag, mib] : {std::pair("--bucket-mib", carriage.bucket_mib),
                                  std::pair("--first-bucket-mib", carriage.first_bucket_mib)})
    if (!(mib >= 0 && mib <= kMostMib))
      throw UsageError(fmt::format("{} must be 0 to {}, not {}", flag, kMostMib, mib));
  if (!carriage.buckets.empty()) counts_in(carriage.buckets);
}

// Why these numbers can't be cut into buckets that begin while backward runs; empty: they can.
std::string reason_against_buckets(Travels travels, const StrategyRow& row, const RunTerms& run) {
  switch (travels) {
    case Travels::mean_of_gradients:
      return {};
    case Travels::pushed_gradients:
    case Travels::pushed_changes:
      // The servers of those that go apart step a whole push at once.
      if (run.needs_whole_layers && !(travels == Travels::pushed_gradients && row.goes_apart()))
        return fmt::format(
            "each bucket is stepped by itself, and --optimizer {} needs all layers at once: leave "
            "it out, or take another optimizer",
            Options::name_in(run.optimizer));
      return {};
    case Travels::pushed_sums:
      return "what it pushes adds up the gradients of several steps, and travels while the next "
             "ones are computed as it is: leave it out, or take asp";
    case Travels::pushed_distances:
      return "what it pushes is the way to a centre, which is known when the worker has stepped, "
             "after backward: leave it out, or take --strategy asp";
    case Travels::mean_of_weights:
    case Travels::sent_weights:
    case Travels::own_way:
      break;
  }
  return "it sends weights, which are known when the worker has stepped, after backward: leave it "
         "out, or take all-reduce, parameter-server, asp or ssp";
}

// The same of weights that another worker mixes into its own, as they come. What a message is off
// by is in nobody's memory: the mean of all workers moves by it.
std::string reason_against_sent_weights(const Compression& c) {
  constexpr double kMostSquaredError = 1.0 / 16;
  constexpr std::size_t kMany = std::numeric_limits<std::uint32_t>::max();
  const bool has_all = c.averaging == Averaging::additive || c.averaging == Averaging::two_shot;
  if (c.lossless) return {};
  if (!has_all)
    return "it mixes weights as they come, and a message that leaves most of them out, or has the "
           "signs alone, is no point where weights can be: take fp16, bf16, int8 or qsgd";
  if (c.memories > 0)
    return "each message goes to another worker with a mass of its own, so what one leaves out is "
           "not due to the next: give feedback=off";
  if (std::max(c.squared_error(1), c.squared_error(kMany)) > kMostSquaredError)
    return "it mixes weights as they come, and such a message may be off by more than a quarter of "
           "their norm: give more levels or smaller buckets, or take fp16, bf16 or int8";
  return {};
}

// Why these numbers can't go through that compressor; empty: they can.
std::string reason_against(const Compression& c, Travels travels, const Carriage& carriage,
                           const RunTerms& run) {
  if (travels == Travels::own_way)
    return "its workers exchange weights by messages of its own, which go as they are";
  if (is_mean(travels) && carriage.collective == "shared")
    return "with --collective shared workers read each other's memory, so nothing is sent that "
           "could be shorter; take another collective";
  if (travels == Travels::pushed_distances && !c.lossless)
    return "it draws workers and centre together by a part of their distance, and what a message "
           "leaves out would push them apart";
  if (travels == Travels::sent_weights) return reason_against_sent_weights(c);
  if (c.needs_sgd) {
    if (travels != Travels::mean_of_gradients && travels != Travels::pushed_gradients)
      return "it repeats SGD's momentum on the gradients of one step, and these are other numbers";
    if (Options::name_in(run.optimizer) != "sgd")
      return fmt::format(
          "it repeats SGD's momentum on gradients, and the optimiser is {}: give --optimizer sgd:…",
          Options::name_in(run.optimizer));
    return {};
  }
  const bool is_vote = c.averaging == Averaging::voted;
  if (is_vote && travels != Travels::mean_of_gradients)
    return "a vote needs the signs of all workers' gradients at once: give feedback=on";
  if (c.averaging == Averaging::low_rank && !is_mean(travels))
    return "its two factors are means over all workers, and a server hears one at a time";
  return {};
}

// As the settings say.
BucketRule bucket_rule(const Carriage& carriage) {
  BucketRule rule{.overlap = overlaps(carriage)};
  rule.measures_plan = carriage.overlap == "merged" && carriage.buckets.empty();
  if (!carriage.buckets.empty()) {
    rule.plan = [counts = counts_in(carriage.buckets)](auto tensors) {
      return buckets_of(counts, tensors);
    };
  } else if (overlaps(carriage)) {
    constexpr double kMib = 1 << 20;
    rule.plan = [first = static_cast<std::size_t>(carriage.first_bucket_mib * kMib),
                 others = static_cast<std::size_t>(carriage.bucket_mib * kMib)](auto tensors) {
      return others == 0 ? bucket_each(tensors)
                         : buckets_by_size(tensors, std::min(first, others), others);
    };
  }
  return rule;
}

}  // namespace

bool takes_over_sgd(const Carriage& carriage) {
  return !carriage.compress.empty() && compression(carriage.compress).needs_sgd;
}

void check_carriage(const Carriage& carriage, std::string_view strategy, const RunTerms& run,
                    const StrategyRow* own) {
  check_values(carriage);
  const std::string_view name = strategy_named(strategy, own).name;
  const Travels travels = travels_of(strategy, own);
  if (cuts(carriage))
    if (const std::string reason =
            reason_against_buckets(travels, strategy_named(strategy, own), run);
        !reason.empty())
      throw UsageError(fmt::format("--{} does not work with {}: {}",
                                   overlaps(carriage) ? "overlap " + carriage.overlap : "buckets",
                                   name, reason));
  if (carriage.compress.empty()) return;
  const Compression c = compression(carriage.compress);
  const std::string reason = reason_against(c, travels, carriage, run);
  if (!reason.empty())
    throw UsageError(fmt::format("--compress {} does not work with {}: {}",
                                 compressor_named(carriage.compress).name, name, reason));
}

std::optional<std::string> notice_of_carriage(const Carriage& carriage, std::string_view strategy,
                                              const RunTerms& run, const StrategyRow* own) {
  if (carriage.compress.empty() || !is_mean(travels_of(strategy, own))) return {};
  const Compression c = compression(carriage.compress);
  const bool is_gathered = c.averaging == Averaging::gathered || c.averaging == Averaging::voted;
  if (!is_gathered || run.workers < 2) return {};
  constexpr std::size_t kMany = 1 << 20;
  constexpr std::uint64_t kLate = 1 << 30;  // after any warm-up
  const Values numbers = Values::hollow(kMany, Type::fp32);
  const auto code = c.make();
  const auto keeps = remembering(c, *code, std::vector<Values>(c.memories, numbers), {});
  Compressor& sends = keeps ? *keeps : *code;
  const auto message = static_cast<double>(
      sends.encode(numbers, {nullptr, sends.most_bytes(kMany)}, {.step = kLate}));
  // Each worker gets m - 1 messages; of numbers as they are it sends twice (m - 1) / m of all.
  const double plain = 2.0 * kMany * size_of(Type::fp32) / run.workers;
  if (message <= plain) return {};
  return fmt::format(
      "--compress {} sends {:.1f} times as many bytes as numbers as they are, since each of {} "
      "workers gets the messages of all others",
      carriage.compress, message / plain, run.workers);
}

void carry(const Carriage& carriage, std::string_view strategy, bool audit,
           const OptimiserTerms& optimiser, Crew& crew, const StrategyRow* own) {
  std::optional<Compression> c;
  if (!carriage.compress.empty()) c = compression(carriage.compress);
  const Travels travels = travels_of(strategy, own);
  if (!is_mean(travels)) {
    const bool notes_losses = audit && travels != Travels::sent_weights;
    if (c) crew.push_codes = compressed_pushes({*c, notes_losses, optimiser});
    if (cuts(carriage)) crew.push_buckets = bucket_rule(carriage);
    return;
  }
  if (!c && !cuts(carriage)) return;
  MeanRule rule{c, bucket_rule(carriage)};
  rule.notes_losses = audit;
  rule.optimiser = optimiser;
  crew.means = bucket_means(std::move(rule));
}

}  // namespace lockstep
