#include "study/figures.h"

#include <algorithm>

#include "core/error.h"

namespace lockstep::study {
namespace {

using Json = nlohmann::ordered_json;
using Value = std::optional<double>;

Value number(const Json& object, const char* key) {
  const Json value = number_at(object, key);
  return value.is_null() ? Value() : value.get<double>();
}

enum class Over { all, workers };
enum class Fold { sum, mean, most };

Value folded(const RunRecord& run, const char* key, Over over, Fold fold) {
  double sum = 0, most = 0, n = 0;
  for (const Json& rank : list_at(run.result, "workers_detail")) {
    if (over == Over::workers && rank.value("role", "") != "worker") continue;
    const Value value = number(rank, key);
    if (!value) return {};
    sum += *value;
    most = std::max(most, *value);
    ++n;
  }
  if (n == 0) return {};
  return fold == Fold::most ? most : fold == Fold::sum ? sum : sum / n;
}

Value per_step(const RunRecord& run, Value total) {
  const Value steps = number(run.result, "steps");
  if (!total || !steps || *steps <= 0) return {};
  return *total / *steps;
}

// Of all ranks together; none without compression.
Value in_compression(const RunRecord& run, const char* key) {
  return number(member(run.result, "compression"), key);
}

Value in_staleness(const RunRecord& run, const char* key) {
  return number(member(run.result, "staleness"), key);
}

// Column figures come from a key of `result` or from a fold over the ranks.
#define RESULT(key) [](const RunRecord& run) { return number(run.result, key); }
#define RANKS(key, over, fold) \
  [](const RunRecord& run) { return folded(run, key, Over::over, Fold::fold); }
#define COMPRESSION_PER_STEP(key) \
  [](const RunRecord& run) { return per_step(run, in_compression(run, key)); }
#define PER_STEP(key, over, fold) \
  [](const RunRecord& run) { return per_step(run, folded(run, key, Over::over, Fold::fold)); }

constexpr Figure kFigures[] = {
    {"score", "accuracy", "%", "high", 2, false, RESULT("score")},
    {"dice", "Dice", "%", "high", 2, false, RESULT("dice")},
    {"iou", "intersection over union", "%", "high", 2, false, RESULT("iou")},
    {"target_seconds", "time to target", "s", "low", 1, true, RESULT("target_seconds")},
    {"target_steps", "steps to target", "", "low", 0, true, RESULT("target_steps")},
    {"target_bytes", "bytes to target", "B", "low", 1, true, RESULT("target_bytes")},
    {"train_seconds", "training time", "s", "low", 1, true, RESULT("train_seconds")},
    {"samples_per_second", "samples a second", "/s", "high", 0, true, RESULT("samples_per_second")},
    {"steady_samples_per_second", "steady samples a second", "/s", "high", 0, true,
     RESULT("steady_samples_per_second")},
    {"steady_steps", "steps in the steady window", "", "high", 0, true, RESULT("steady_steps")},
    {"step_seconds", "time a step", "s", "low", 4, true,
     [](const RunRecord& run) { return per_step(run, number(run.result, "train_seconds")); }},
    {"compute_seconds_per_step", "compute a step", "s", "low", 4, true,
     PER_STEP("compute_seconds", workers, mean)},
    {"communicate_seconds_per_step", "communicate a step", "s", "low", 4, true,
     PER_STEP("communicate_seconds", workers, mean)},
    {"wait_seconds_per_step", "wait a step", "s", "low", 4, true,
     PER_STEP("wait_seconds", workers, mean)},
    {"hidden_seconds_per_step", "exchange beside computing a step", "s", "low", 4, true,
     PER_STEP("hidden_seconds", workers, mean)},
    {"bytes_before_per_step", "before compression a step, all ranks", "B", "low", 1, true,
     COMPRESSION_PER_STEP("bytes_before")},
    {"bytes_after_per_step", "after compression a step, all ranks", "B", "low", 1, true,
     COMPRESSION_PER_STEP("bytes_after")},
    {"encode_seconds_per_step", "encode a step, all ranks", "s", "low", 4, true,
     COMPRESSION_PER_STEP("encode_seconds")},
    {"decode_seconds_per_step", "decode a step, all ranks", "s", "low", 4, true,
     COMPRESSION_PER_STEP("decode_seconds")},
    {"break_even_bits_per_second", "compression stops paying above", "bit/s", "high", 0, true,
     [](const RunRecord& run) { return in_compression(run, "break_even_bits_per_second"); }},
    {"bytes_per_step", "sent a step, all ranks", "B", "low", 1, true,
     PER_STEP("bytes_sent", all, sum)},
    {"busiest_bytes_per_step", "sent a step, busiest rank", "B", "low", 1, true,
     PER_STEP("bytes_sent", all, most)},
    {"bytes_sent", "sent in all", "B", "low", 1, true, RANKS("bytes_sent", all, sum)},
    {"messages_per_step", "messages a step", "", "low", 1, true,
     PER_STEP("messages_sent", all, sum)},
    {"cpu_cores", "cores in use", "cores", "low", 2, true,
     [](const RunRecord& run) {
       const Value percent = folded(run, "cpu_percent", Over::all, Fold::sum);
       return percent ? Value(*percent / 100) : Value();
     }},
    {"peak_rss_bytes", "memory of the largest rank", "B", "low", 1, true,
     RANKS("peak_rss_bytes", all, most)},
    {"peak_private_bytes", "private memory of the largest rank", "B", "low", 1, true,
     RANKS("peak_private_bytes", all, most)},
    {"peak_tensor_bytes", "tensors of the largest rank", "B", "low", 1, true,
     RANKS("peak_tensor_bytes", all, most)},
    {"disk_read_bytes", "read from disk", "B", "low", 1, true, RANKS("disk_read_bytes", all, sum)},
    {"disk_written_bytes", "written to disk", "B", "low", 1, true,
     RANKS("disk_written_bytes", all, sum)},
    {"consensus_distance", "consensus distance", "", "low", 4, false, RESULT("consensus_distance")},
    {"staleness_mean", "staleness", "updates", "low", 1, true,
     [](const RunRecord& run) { return in_staleness(run, "mean"); }},
    {"staleness_max", "most stale", "updates", "low", 0, true,
     [](const RunRecord& run) { return in_staleness(run, "max"); }},
    {"most_predicted_share", "share of the commonest answer", "%", "low", 1, false,
     RESULT("most_predicted_share")},
};

#undef RESULT
#undef RANKS
#undef COMPRESSION_PER_STEP
#undef PER_STEP

}  // namespace

Json to_json(const Estimate& e, const char* mean) {
  const auto or_null = [](const std::optional<double>& value) {
    return value ? Json(*value) : Json();
  };
  return {{mean, e.mean}, {"low", or_null(e.low)}, {"high", or_null(e.high)}, {"n", e.n}};
}

std::span<const Figure> figures() { return kFigures; }

const Figure* find_figure(std::string_view key) {
  const auto found = std::ranges::find(kFigures, key, &Figure::key);
  return found == std::end(kFigures) ? nullptr : found;
}

const Figure& figure(std::string_view key) {
  if (const Figure* found = find_figure(key)) return *found;
  throw InternalError(fmt::format("no figure {}", key));
}

bool oversubscribed(const RunRecord& run) { return member(run.result, "oversubscribed") == true; }
bool simulated(const RunRecord& run) { return member(run.result, "simulated") == true; }

bool Compared::comparable(const Compared& other) const {
  return variant->group == other.variant->group && simulated == other.simulated &&
         variant->tuned.empty() == other.variant->tuned.empty();
}

std::optional<Estimate> Compared::of(std::string_view figure) const {
  const auto found = values.find(figure);
  if (found == values.end()) return {};
  std::vector<double> all;
  for (const auto& [seed, value] : found->second) all.push_back(value);
  return estimate(all);
}

std::optional<Estimate> Compared::against_baseline(std::string_view key) const {
  if (!baseline) return {};
  const auto mine = values.find(key), theirs = baseline->values.find(key);
  if (mine == values.end() || theirs == baseline->values.end()) return {};
  return figure(key).as_ratio ? paired_ratio(mine->second, theirs->second)
                              : paired_difference(mine->second, theirs->second);
}

std::vector<Compared> compare(const Study& study, const Records& records) {
  std::vector<Compared> all;
  for (const Variant& variant : study.variants) {
    Compared& one = all.emplace_back();
    one.variant = &variant;
    one.simulated = variant.simulated;
    for (const std::string& id : variant.runs) {
      const RunRecord& record = records.at(id);
      if (!record.done()) continue;
      one.oversubscribed |= oversubscribed(record);
      one.simulated |= simulated(record);
      for (const Figure& f : figures())
        if (const auto value = f.of(record)) one.values[f.key][study.run(id).seed] = *value;
    }
  }
  for (Compared& one : all)
    for (const Compared& other : all)
      if (&one != &other && other.variant->name == study.baseline &&
          one.variant->name != study.baseline && one.comparable(other))
        one.baseline = &other;
  return all;
}

}  // namespace lockstep::study
