#include "train/result.h"

#include <algorithm>
#include <cmath>

#include "collectives/gather.h"
#include "compression/registry.h"
#include "core/json_text.h"
#include "parallel/pipeline_schedule.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}
Json or_null(bool there, Json value) { return there ? std::move(value) : Json(nullptr); }

// Workers in step start each step with what the last one left: no staleness.
Json staleness_of(const TrainResult& result) {
  std::vector<std::uint64_t> histogram;
  for (const Json& rank : result.ranks) {
    const auto counts = rank["contributions"]["staleness"].get<std::vector<std::uint64_t>>();
    if (counts.size() > histogram.size()) histogram.resize(counts.size());
    for (std::size_t s = 0; s < counts.size(); ++s) histogram[s] += counts[s];
  }
  if (histogram.empty()) histogram = {result.steps};
  double count = 0, sum = 0;
  for (std::size_t s = 0; s < histogram.size(); ++s) {
    count += static_cast<double>(histogram[s]);
    sum += static_cast<double>(s * histogram[s]);
  }
  return {{"max", histogram.size() - 1},
          {"mean", count > 0 ? sum / count : 0},
          {"histogram", histogram}};
}

// Until the worker that trained longest had taken its last step.
double training_s(const TrainResult& result) {
  double longest = 0;
  for (const Json& rank : result.ranks)
    if (rank["role"] == "worker")
      longest = std::max(longest, rank["compute_seconds"].get<double>() +
                                      rank["communicate_seconds"].get<double>() +
                                      rank["wait_seconds"].get<double>());
  return longest;
}

double sum_of(const TrainResult& result, const char* key) {
  double sum = 0;
  for (const Json& rank : result.ranks) sum += rank[key].get<double>();
  return sum;
}

Coding coding_of_all(const TrainResult& result) {
  Coding all;
  for (const Json& rank : result.ranks)
    all += {rank["encode_seconds"],     rank["decode_seconds"],  rank["bytes_before_coding"],
            rank["bytes_after_coding"], rank["numbers_encoded"], rank["numbers_decoded"]};
  return all;
}

Json break_even_bits_per_s(const Coding& coding) {
  const std::optional<double> even = coding.break_even_bytes_per_s();
  return even ? Json(8 * *even) : Json(nullptr);
}

// What a rank's messages moved at while it communicated, in the mean: at most what its line
// carries.
std::optional<double> moved_bytes_per_s(const TrainResult& result, const Coding& coding) {
  const double busy_s = sum_of(result, "communicate_seconds") + sum_of(result, "hidden_seconds") -
                        coding.encode_s - coding.decode_s;
  const double bytes = sum_of(result, "bytes_sent");
  return busy_s > 0 && bytes > 0 ? std::optional(bytes / busy_s) : std::nullopt;
}

// What compression cost and saved, all ranks together.
Json compression_of(const TrainConfig& config, const TrainResult& result) {
  if (config.compress.empty()) return nullptr;
  const Coding all = coding_of_all(result);
  const bool measured = !result.link_bytes_per_s;
  const auto link = measured ? moved_bytes_per_s(result, all) : result.link_bytes_per_s;
  return {{"compressor", full_compressor_spec(config.compress)},
          {"encode_seconds", all.encode_s},
          {"decode_seconds", all.decode_s},
          {"bytes_before", all.plain_bytes},
          {"bytes_after", all.sent_bytes},
          {"break_even_bits_per_second", break_even_bits_per_s(all)},
          {"link_bits_per_second", link ? Json(8 * *link) : Json(nullptr)},
          {"link_is_measured", or_null(link.has_value(), measured)}};
}

// The seconds of exchanges that ran beside backward, all ranks together.
Json overlap_of(const TrainConfig& config, const TrainResult& result) {
  if (config.overlap == "none") return nullptr;
  return {{"hidden_seconds", sum_of(result, "hidden_seconds")}};
}

// How many numbers each bucket has, and what it took.
Json buckets_of(const TrainResult& result, bool detail) {
  if (result.buckets.empty()) return nullptr;
  Json all = Json::array();
  for (const BucketFigures& b : result.buckets)
    all.push_back(detail ? Json{{"numbers", b.numbers},
                                {"encode_seconds", b.coding.encode_s},
                                {"exchange_seconds", b.exchange_s},
                                {"decode_seconds", b.coding.decode_s},
                                {"hidden_seconds", b.hidden_s},
                                {"bytes_before", b.coding.plain_bytes},
                                {"bytes_after", b.coding.sent_bytes},
                                {"break_even_bits_per_second", break_even_bits_per_s(b.coding)}}
                         : Json(b.numbers));
  return all;
}

// The part of the workers' time, communication apart, in which they waited for each other: for what
// passes between stages, and at the end of a step for those that still had passes to do.
Json bubble_of(const TrainResult& result) {
  double waited_s = 0, computed_s = 0;
  for (const Json& rank : result.ranks) {
    waited_s += rank["wait_seconds"].get<double>();
    computed_s += rank["compute_seconds"].get<double>();
  }
  const double all_s = waited_s + computed_s;
  return or_null(all_s > 0, waited_s / all_s);
}

Json pipeline_of(const TrainConfig& config, const TrainResult& result) {
  if (!config.has_pipeline()) return nullptr;
  const PipelineSchedule schedule = schedule_of_pipeline(config);
  return {{"spec", config.pipeline},         {"workers", schedule.workers},
          {"stages", schedule.stages},       {"replicas", config.replicas},
          {"microbatches", schedule.micros}, {"blocks_by_stage", config.balance},
          {"bubble", bubble_of(result)}};
}

}  // namespace

Json to_json(const RankReport& r) {
  const auto per_second = [&](double n) { return r.training_s > 0 ? n / r.training_s : 0; };
  const auto used = [&](auto field) { return r.usage ? Json((*r.usage).*field) : Json(nullptr); };
  const auto peak = [&](auto field) { return r.peaks ? Json((*r.peaks).*field) : Json(nullptr); };
  return {{"rank", r.rank},
          {"role", r.works ? "worker" : "server"},
          {"host", r.host},
          {"steps", or_null(r.works, r.steps)},
          {"samples", or_null(r.works, r.samples)},
          {"samples_per_second", or_null(r.works, per_second(static_cast<double>(r.samples)))},
          {"cpu_percent", used(&Usage::cpu_percent)},
          {"peak_rss_bytes", used(&Usage::peak_rss_bytes)},
          {"peak_private_bytes", peak(&MemoryPeaks::private_bytes)},
          {"peak_shared_bytes", peak(&MemoryPeaks::shared_bytes)},
          {"peak_tensor_bytes", r.peak_tensor_bytes ? Json(*r.peak_tensor_bytes) : Json(nullptr)},
          {"shared_bytes", used(&Usage::shared_bytes)},
          {"bytes_sent", r.exchanged.bytes_sent},
          {"bytes_received", r.exchanged.bytes_received},
          {"messages_sent", r.exchanged.messages_sent},
          {"bytes_other", r.bytes_other},
          {"disk_read_bytes", used(&Usage::disk_read_bytes)},
          {"disk_written_bytes", used(&Usage::disk_written_bytes)},
          {"compute_seconds", r.spent.compute_s},
          {"communicate_seconds", r.spent.communicate_s},
          {"hidden_seconds", r.spent.hidden_s},
          {"wait_seconds", r.spent.wait_s},
          {"stall_seconds", r.spent.stalled_s},
          {"encode_seconds", r.coding.encode_s},
          {"decode_seconds", r.coding.decode_s},
          {"bytes_before_coding", r.coding.plain_bytes},
          {"bytes_after_coding", r.coding.sent_bytes},
          {"numbers_encoded", r.coding.encoded},
          {"numbers_decoded", r.coding.decoded},
          {"sends_merged", r.sends.merged},
          {"sends_withheld", r.sends.withheld},
          {"mass", or_null(r.mass)},
          {"contributions",
           {{"count", r.contributions.count},
            {"weight_by_worker", r.contributions.weight},
            {"staleness", r.contributions.staleness}}}};
}

void TrainResult::count_samples() {
  samples = 0;
  for (const Json& rank : ranks)
    if (rank["role"] == "worker") samples += rank["samples"].get<std::uint64_t>();
}

void TrainResult::count_steps() {
  std::uint64_t sum = 0, workers = 0;
  for (const Json& rank : ranks) {
    if (rank["role"] != "worker") continue;
    sum += rank["steps"].get<std::uint64_t>();
    ++workers;
  }
  if (workers > 0) steps = (sum + workers / 2) / workers;
}

Json to_json(const Score& s) {
  return {{"steps", s.steps},
          {"ends_epoch", s.ends_epoch},
          {"training_seconds", s.training_s},
          {"accuracy", s.accuracy},
          {"loss", s.loss},
          {"train_loss", s.train_loss},
          {"consensus_distance", s.consensus_distance},
          {"bytes_sent", s.bytes},
          {"accuracy_by_class", s.by_class},
          {"most_predicted_share", s.most_predicted},
          {"waited_for", or_null(s.waited_for)},
          {"dice", or_null(s.dice)},
          {"iou", or_null(s.iou)}};
}

Score score_from_json(const nlohmann::json& json) {
  const auto& waited_for = json.at("waited_for");
  // Not in runs of before there were any.
  const auto if_any = [&](const char* key) {
    const auto found = json.find(key);
    return found == json.end() || found->is_null() ? std::nullopt : std::optional<double>(*found);
  };
  // JSON has no number for what is none.
  const auto number = [&](const char* key) {
    return json.at(key).is_null() ? std::nan("") : json.at(key).get<double>();
  };
  return {json.at("steps"),
          json.at("ends_epoch"),
          number("training_seconds"),
          number("accuracy"),
          number("loss"),
          number("train_loss"),
          number("consensus_distance"),
          json.at("bytes_sent"),
          json.at("accuracy_by_class"),
          json.at("most_predicted_share"),
          waited_for.is_null() ? std::nullopt : std::optional<int>(waited_for),
          if_any("dice"),
          if_any("iou")};
}

void gather_reports(Transport& present, const RankReport& mine, const SampleCurve& curve,
                    const std::vector<std::string>& damaged, std::set<int>* gone,
                    TrainResult& result) {
  for (const std::string& text : gather_texts(present, to_json(mine).dump(), gone))
    if (!text.empty()) result.ranks.push_back(Json::parse(text));
  std::ranges::sort(result.ranks, {},
                    [](const Json& rank) { return rank["rank"].template get<int>(); });
  std::vector<SampleCurve> curves;
  for (const std::vector<double>& row : rows_at_first(present, curve.numbers(), gone))
    if (!row.empty()) curves.push_back(SampleCurve::from(row));
  result.steady = steady_rate(curves);
  for (const std::string& text : gather_texts(present, json_text(damaged), gone))
    if (!text.empty())
      for (const auto& file : Json::parse(text)) result.damaged.insert(file);
}

// Collective even where this rank has no buckets, as a server: the others have some.
void gather_buckets(Transport& present, std::span<const BucketFigures> mine, std::set<int>* gone,
                    TrainResult& result) {
  constexpr std::size_t kNumbers = 7;
  std::vector<double> row;
  for (const BucketFigures& b : mine)
    row.insert(row.end(), {static_cast<double>(b.numbers), b.coding.encode_s, b.coding.decode_s,
                           static_cast<double>(b.coding.plain_bytes),
                           static_cast<double>(b.coding.sent_bytes), b.exchange_s, b.hidden_s});
  for (const std::vector<double>& of : rows_at_first(present, row, gone)) {
    result.buckets.resize(std::max(result.buckets.size(), of.size() / kNumbers));
    for (std::size_t b = 0; b < of.size() / kNumbers; ++b) {
      const double* const n = of.data() + kNumbers * b;
      BucketFigures& sum = result.buckets[b];
      sum.numbers = static_cast<std::size_t>(n[0]);
      sum.coding +=
          {n[1], n[2], static_cast<std::uint64_t>(n[3]), static_cast<std::uint64_t>(n[4])};
      sum.exchange_s += n[5];
      sum.hidden_s += n[6];
    }
  }
}

std::optional<CodingRate> coding_rate(const TrainConfig& config, const TrainResult& result) {
  if (config.compress.empty() || result.ranks.empty()) return {};
  const Coding all = coding_of_all(result);
  if (all.encoded == 0) return {};
  const auto decoded = static_cast<double>(std::max<std::uint64_t>(1, all.decoded));
  return CodingRate{full_compressor_spec(config.compress), config.workers,
                    all.encode_s / static_cast<double>(all.encoded), all.decode_s / decoded};
}

const Score* reaches(const std::vector<Score>& scores, double target) {
  if (target <= 0) return nullptr;
  const auto found =
      std::ranges::find_if(scores, [&](const Score& s) { return s.accuracy >= target; });
  return found == scores.end() ? nullptr : &*found;
}

Json summary(const TrainConfig& config, const TrainResult& result) {
  const Score* last = result.scores.empty() ? nullptr : &result.scores.back();
  const Score* target = reaches(result.scores, config.target_accuracy);
  Json by_epoch = Json::array();
  for (const Score& s : result.scores)
    if (s.ends_epoch) by_epoch.push_back(s.accuracy);
  const double train_s = training_s(result);
  const auto steps = static_cast<double>(result.steps),
             samples = static_cast<double>(result.samples);
  return {{"schema_version", 1},
          {"status", result.status},
          {"reason", or_null(!result.reason.empty(), result.reason)},
          {"strategy", config.strategy},
          {"collective", or_null(!result.collective.empty(), result.collective)},
          {"compression", compression_of(config, result)},
          {"overlap", overlap_of(config, result)},
          {"buckets", buckets_of(result, false)},
          {"buckets_detail", buckets_of(result, true)},
          {"model", config.model},
          {"data", result.data},
          {"workers", config.workers},
          {"servers", config.servers},
          {"pipeline", pipeline_of(config, result)},
          {"seed", config.seed},
          {"simulated", result.simulated},
          {"oversubscribed", result.oversubscribed},
          {"metric", "accuracy"},
          {"score", last ? Json(last->accuracy) : Json(nullptr)},
          {"score_by_epoch", by_epoch},
          {"score_by_class", last ? Json(last->by_class) : Json(nullptr)},
          {"seconds_by_epoch", result.seconds_by_epoch},
          {"train_seconds", train_s},
          {"split_seconds", result.split_s},
          {"samples_per_second", or_null(train_s > 0, samples / train_s)},
          {"steady_samples_per_second",
           result.steady ? Json(result.steady->samples_per_second) : Json(nullptr)},
          {"steady_window_seconds",
           result.steady ? Json{result.steady->from_s, result.steady->to_s} : Json(nullptr)},
          {"steady_steps", result.steady ? Json(result.steady->steps) : Json(nullptr)},
          {"target_seconds", target ? Json(target->training_s) : Json(nullptr)},
          {"target_steps", target ? Json(target->steps) : Json(nullptr)},
          {"target_bytes", target ? Json(target->bytes) : Json(nullptr)},
          {"steps", result.steps},
          {"effective_batch", or_null(steps > 0, samples / steps)},
          {"compute_deviation_seconds",
           or_null(steps > 0 && config.workers > 1, std::sqrt(result.compute_variance_s2 / steps))},
          {"consensus_distance", last ? Json(last->consensus_distance) : Json(nullptr)},
          {"most_predicted_share", last ? Json(last->most_predicted) : Json(nullptr)},
          {"dice", last ? or_null(last->dice) : Json(nullptr)},
          {"iou", last ? or_null(last->iou) : Json(nullptr)},
          {"staleness", staleness_of(result)},
          {"model_sha256", or_null(!result.model_sha256.empty(), result.model_sha256)},
          {"lost", result.lost},
          {"tasks_reissued", or_null(result.tasks_reissued)},
          {"tasks_dropped", or_null(result.tasks_dropped)},
          {"straggler", or_null(result.straggler)},
          {"damaged_files", result.damaged},
          {"workers_detail", result.ranks}};
}

}  // namespace lockstep
