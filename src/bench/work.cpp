#include "bench/work.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace lockstep::bench {
namespace {

using nlohmann::json;

constexpr std::string_view kOperations[] = {"allreduce", "p2p", "pushpull"};  // as in Operation

json maybe(const std::optional<std::uint64_t>& value) { return value ? json(*value) : json(); }

std::optional<std::uint64_t> number_at(const json& object, const char* key) {
  const json& value = object.at(key);
  if (value.is_null()) return std::nullopt;
  return value.get<std::uint64_t>();
}

void keep_slowest(std::vector<double>& slowest, const std::vector<double>& times) {
  slowest.resize(std::max(slowest.size(), times.size()));
  for (std::size_t i = 0; i < times.size(); ++i) slowest[i] = std::max(slowest[i], times[i]);
}

}  // namespace

std::string_view name_of(Operation o) { return kOperations[static_cast<std::size_t>(o)]; }

Result join(const std::vector<Result>& parts) {
  Result all;
  for (const Result& one : parts) {
    keep_slowest(all.times_us, one.times_us);
    keep_slowest(all.stream_us, one.stream_us);
    keep_slowest(all.memcpy_us, one.memcpy_us);
    if (one.wrong) all.wrong = all.wrong.value_or(0) + *one.wrong;
    if (one.bytes_sent_total) {
      all.bytes_sent_total = all.bytes_sent_total.value_or(0) + *one.bytes_sent_total;
      all.bytes_sent_busiest =
          std::max(all.bytes_sent_busiest.value_or(0), *one.bytes_sent_busiest);
    }
    all.chosen = one.chosen;
  }
  return all;
}

std::string to_line(const Work& w) {
  return json{{"operation", name_of(w.operation)},
              {"collective", w.collective},
              {"type", name_of(w.type)},
              {"bytes", w.bytes},
              {"warmup", w.warmup},
              {"iterations", w.iterations},
              {"servers", w.servers}}
      .dump();
}

Work work_from(const std::string& line) try {
  const json object = json::parse(line);
  const auto operation = std::ranges::find(kOperations, object.at("operation").get<std::string>());
  if (operation == std::end(kOperations))
    throw InternalError(fmt::format("'{}' names no operation of the bench", line));
  return {static_cast<Operation>(operation - kOperations),
          object.at("collective"),
          type_named(object.at("type").get<std::string>()),
          object.at("bytes"),
          object.at("warmup"),
          object.at("iterations"),
          object.at("servers")};
} catch (const json::exception& e) {
  throw InternalError(
      fmt::format("'{}' is not a line of work for a bench worker: {}", line, e.what()));
}

std::string to_line(const Result& r) {
  return json{{"times_us", r.times_us},
              {"stream_us", r.stream_us},
              {"wrong", maybe(r.wrong)},
              {"bytes_sent_total", maybe(r.bytes_sent_total)},
              {"bytes_sent_busiest", maybe(r.bytes_sent_busiest)},
              {"chosen", r.chosen},
              {"memcpy_us", r.memcpy_us}}
      .dump();
}

std::string failure_line(const std::string& reason) { return json{{"failed", reason}}.dump(); }

Result result_from(const std::string& line) try {
  const json object = json::parse(line);
  if (object.contains("failed")) throw InternalError(object.at("failed").get<std::string>());
  return {object.at("times_us"),
          object.at("stream_us"),
          number_at(object, "wrong"),
          number_at(object, "bytes_sent_total"),
          number_at(object, "bytes_sent_busiest"),
          object.at("chosen"),
          object.at("memcpy_us")};
} catch (const json::exception& e) {
  throw InternalError(fmt::format("'{}' is not a bench worker's answer: {}", line, e.what()));
}

std::vector<std::size_t> sizes_between(std::size_t first, std::size_t last, int factor,
                                       std::size_t element_bytes) {
  if (first < element_bytes)
    throw UsageError(
        fmt::format("-b must be at least one element ({} bytes), not {}", element_bytes, first));
  if (first > last)
    throw UsageError(
        fmt::format("-b must not be larger than -e, but {} bytes is more than {}", first, last));
  std::vector<std::size_t> sizes;
  const auto add = [&](std::size_t size) {
    size -= size % element_bytes;
    if (sizes.empty() || sizes.back() != size) sizes.push_back(size);
  };
  for (std::size_t size = first;; size *= factor) {
    add(size);
    if (size > last / factor) break;  // before it can overflow
  }
  add(last);
  return sizes;
}

}  // namespace lockstep::bench
