#include "bench/report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace lockstep::bench {
namespace {

using nlohmann::ordered_json;

template <class T>
ordered_json maybe(const std::optional<T>& value) {
  return value ? ordered_json(*value) : ordered_json();
}

double algorithm_bandwidth(const Measured& m) {
  return gigabytes_per_second(static_cast<double>(m.work.bytes), median(m.times_us));
}

// What a link carries: for p2p that of the one-way stream, for pushpull a worker's both ways.
double bus_bandwidth(const Measured& m, int ranks) {
  if (m.work.operation == Operation::pushpull) return algorithm_bandwidth(m) * 2;
  if (m.work.operation == Operation::allreduce)
    return algorithm_bandwidth(m) * all_reduce_bus_factor(ranks);
  return gigabytes_per_second(static_cast<double>(m.work.bytes), median(m.stream_us));
}

// What was asked for, and what ran if that differs: "auto>shared".
std::string algorithm_of(const Measured& m) {
  return m.chosen == m.by.collective ? m.chosen : m.by.collective + ">" + m.chosen;
}

// In a comparison: our collectives compete, the others are one engine each.
std::string contender_name(const Measured& m) {
  const bool by_collective = m.by.ours && m.work.operation == Operation::allreduce;
  return by_collective ? m.by.collective : m.by.engine->name();
}

}  // namespace

std::string size_in_words(std::size_t bytes) {
  static constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB"};
  int unit = 0;
  while (unit < 3 && bytes >= 1024 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{} {}", bytes, kUnits[unit]);
}

std::string table_head(const Work& work, int ranks, int repeats) {
  // Who takes part, what the times are, and what the second column names.
  std::string who = fmt::format("{} ranks", ranks), times, second;
  switch (work.operation) {
    case Operation::allreduce:
      times =
          "median over iterations of the slowest rank, from a common start; busbw: algbw x "
          "2(n-1)/n";
      second = "collective";
      break;
    case Operation::p2p:
      times = "half a round trip between ranks 0 and 1; busbw: one-way stream";
      second = "over";
      break;
    case Operation::pushpull:
      who = fmt::format("{} workers, {} servers", ranks - work.servers, work.servers);
      times =
          "median over iterations of the slowest worker, from a common start; busbw: algbw x 2; "
          "/memcpy: times that of a copy of as many bytes";
      second = "strategy";
      break;
  }
  const std::string beside = work.operation == Operation::pushpull ? "  /memcpy (min..max)" : "";
  return fmt::format(
             "# lockstep bench {}: {}, {} warm-up and {} timed iterations, {} repeats, engines "
             "take turns\n# time: {}\n",
             name_of(work.operation), who, work.warmup, work.iterations, repeats, times) +
         fmt::format("# {:<9} {:<26} {:>12} {:>12} {:>6} {:>6} {:>12} {:>8} {:>8} {:>7}  {}{}\n",
                     "engine", second, "size", "count", "type", "redop", "time", "algbw", "busbw",
                     "#wrong", "time by repeat", beside) +
         fmt::format("# {:<9} {:<26} {:>12} {:>12} {:>6} {:>6} {:>12} {:>8} {:>8} {:>7}  {}", "",
                     "", "(B)", "(elements)", "", "", "(us)", "(GB/s)", "(GB/s)", "",
                     "(us, min..max)");
}

std::string table_row(const Measured& m, int ranks) {
  const bool p2p = m.work.operation == Operation::p2p;
  const Spread repeats = spread(m.repeat_medians_us);
  std::string beside;
  if (const auto copies = times_of_memcpy(m))
    beside = fmt::format("  {:.2f}x ({:.2f}..{:.2f})", copies->median, copies->min, copies->max);
  return fmt::format(
      "  {:<9} {:<26} {:>12} {:>12} {:>6} {:>6} {:>12.2f} {:>8.3f} {:>8.3f} {:>7}  "
      "{:.2f}..{:.2f}{}",
      m.by.engine->name(), p2p ? m.by.transport : algorithm_of(m), m.work.bytes,
      m.work.bytes / size_of(m.work.type), name_of(m.work.type), p2p ? "none" : "sum",
      median(m.times_us), algorithm_bandwidth(m), bus_bandwidth(m, ranks),
      m.wrong ? std::to_string(*m.wrong) : "N/A", repeats.min, repeats.max, beside);
}

std::string json_line(const Measured& m, int ranks) {
  const Operation operation = m.work.operation;
  const Spread repeats = spread(m.repeat_medians_us);
  ordered_json line{{"op", name_of(m.work.operation)},
                    {"engine", m.by.engine->name()},
                    {"collective", operation == Operation::allreduce ? ordered_json(m.by.collective)
                                                                     : ordered_json()},
                    {"chosen", m.chosen},
                    {"transport", m.by.transport},
                    {"ranks", ranks},
                    {"type", name_of(m.work.type)},
                    {"bytes", m.work.bytes},
                    {"time_us", median(m.times_us)},
                    {"p99_us", percentile(m.times_us, 99)},
                    {"algbw_GBps", algorithm_bandwidth(m)},
                    {"busbw_GBps", bus_bandwidth(m, ranks)},
                    {"bytes_sent_total", maybe(m.bytes_sent_total)},
                    {"bytes_sent_busiest", maybe(m.bytes_sent_busiest)},
                    {"wrong", maybe(m.wrong)},
                    {"repeats", m.repeat_medians_us.size()},
                    {"time_us_min_repeat", repeats.min},
                    {"time_us_max_repeat", repeats.max}};
  if (operation != Operation::pushpull) return line.dump();
  line["strategy"] = m.by.collective;
  line["workers"] = ranks - m.work.servers;
  line["servers"] = m.work.servers;
  const auto copies = times_of_memcpy(m);
  line["memcpy_us"] = copies ? ordered_json(median(m.memcpy_medians_us)) : ordered_json();
  line["memcpy_ratio"] = copies ? ordered_json(copies->median) : ordered_json();
  line["memcpy_ratio_min"] = copies ? ordered_json(copies->min) : ordered_json();
  line["memcpy_ratio_max"] = copies ? ordered_json(copies->max) : ordered_json();
  return line.dump();
}

std::string ratio_sentence(const Measured& ours, const Measured& theirs, int ranks) {
  Spread times = speedup(ours, theirs);
  const bool slower = times.median < 1;
  if (slower) times = {1 / times.median, 1 / times.max, 1 / times.min};
  return fmt::format("{} is {:.2f}x ({:.2f}..{:.2f}) {} than {} at {} on {} ranks",
                     contender_name(ours), times.median, times.min, times.max,
                     slower ? "slower" : "faster", contender_name(theirs),
                     size_in_words(ours.work.bytes), ranks);
}

std::string ratio_json_line(const Measured& ours, const Measured& theirs, int ranks) {
  const Spread times = speedup(ours, theirs);
  return ordered_json{{"op", "ratio"},
                      {"of", name_of(ours.work.operation)},
                      {"collective", ours.by.collective},
                      {"against", theirs.by.engine->name()},
                      {"ranks", ranks},
                      {"bytes", ours.work.bytes},
                      {"ratio", times.median},
                      {"ratio_min", times.min},
                      {"ratio_max", times.max},
                      {"repeats", ours.repeat_medians_us.size()}}
      .dump();
}

}  // namespace lockstep::bench
