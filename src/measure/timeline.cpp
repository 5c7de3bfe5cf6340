#include "measure/timeline.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/error.h"
#include "core/json_text.h"
#include "core/units.h"
#include "core/whole_file.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::string_view kOpening = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
constexpr std::string_view kClosing = "\n]}\n";
constexpr const char* kLanes[] = {"compute", "communicate", "wait", "evaluate"};
constexpr const char* kParts[] = {"encode", "exchange", "decode"};

// Not 0, which Perfetto takes for the idle task; and no two ranks' lanes share a number, since it
// takes thread numbers for the machine's.
int process_of(int rank) { return rank + 1; }
int thread_of(int rank, Lane lane) { return 10 * process_of(rank) + static_cast<int>(lane); }

std::string names_of(int workers, int ranks) {
  std::string text;
  const auto add = [&](const char* what, int pid, int tid, const Json& args) {
    text += text.empty() ? "" : ",\n";
    text += Json{{"name", what}, {"ph", "M"}, {"pid", pid}, {"tid", tid}, {"args", args}}.dump();
  };
  for (int r = 0; r < ranks; ++r) {
    const int pid = process_of(r), first = thread_of(r, Lane::compute);
    const char* role = r < workers ? "worker" : "server";
    add("process_name", pid, first, {{"name", fmt::format("rank {} ({})", r, role)}});
    add("process_sort_index", pid, first, {{"sort_index", r}});
    for (int lane = 0; lane < 4; ++lane) {
      add("thread_name", pid, first + lane, {{"name", kLanes[lane]}});
      add("thread_sort_index", pid, first + lane, {{"sort_index", lane}});
    }
  }
  return text;
}

// The events of `path` that are not of later steps, as text; empty if there are none.
std::string events_until(const std::string& path, std::uint64_t step) {
  std::string text;
  if (!std::filesystem::exists(path)) return text;
  const Json old = json_in(read_whole(path));
  if (!old.is_object() || !old.contains("traceEvents")) return text;
  for (const Json& event : old["traceEvents"]) {
    if (!event.is_object() || !event.contains("args") || !event["args"].is_object()) continue;
    const Json at = event["args"].value("step", Json(0));
    if (!at.is_number() || at > step) continue;
    text += text.empty() ? "" : ",\n";
    text += json_text(event);
  }
  return text;
}

std::uint64_t number_of(std::string_view text, const std::string& all) {
  if (const auto value = number_in<std::uint64_t>(text)) return *value;
  throw UsageError(fmt::format(
      "--timeline '{}' is not a range of steps: FIRST-LAST, such as 1-500, or all, or none", all));
}

}  // namespace

StepWindow step_window(const std::string& text) {
  if (text == "none") return {};
  if (text == "all") return {1, std::numeric_limits<std::uint64_t>::max()};
  const std::size_t dash = text.find('-');
  const std::string_view view = text;
  const StepWindow window{number_of(view.substr(0, dash), text),
                          number_of(dash == text.npos ? "" : view.substr(dash + 1), text)};
  if (window.first < 1 || window.last < window.first)
    throw UsageError(
        fmt::format("--timeline {}: steps count from 1, and the last comes after the first", text));
  return window;
}

constexpr const char* kPasses[] = {"forward", "recompute", "backward", "backward of inputs",
                                   "backward of weights"};

std::vector<LaneEvent> lanes_of(const TimedStep& s) {
  std::vector<LaneEvent> events;
  const auto add = [&](Lane lane, double start, double end, const char* name = nullptr) {
    if (end > start) events.push_back({lane, start, end, name});
  };
  double wait = s.wait_s;
  const auto exchange = [&](double start, double end) {
    const double waited = std::clamp(wait, 0.0, std::max(0.0, end - start));
    wait -= waited;
    add(Lane::wait, start, start + waited);
    if (s.spans.empty()) add(Lane::communicate, start + waited, end);
  };
  const auto spans = [&] {
    for (const BucketSpan& span : s.spans)
      if (span.end > span.start)
        events.push_back(
            {Lane::communicate, span.start, span.end, kParts[static_cast<int>(span.part)], &span});
    return events;
  };
  if (!s.passes.empty()) {
    double until = s.start;
    for (const PassSpan& pass : s.passes) {
      add(Lane::wait, until, pass.start);
      add(Lane::compute, pass.start, pass.end, kPasses[pass.pass]);
      until = pass.end;
    }
    add(Lane::wait, until, s.ready);
  } else if (s.backward_s > 0) {
    const double begin = std::clamp(s.backward_at, s.start, s.ready);
    const double end = std::clamp(s.backward_at + s.backward_s, begin, s.ready);
    add(Lane::compute, s.start, begin, "forward");
    add(Lane::compute, begin, end, "backward");
    add(Lane::compute, end, s.ready);
  } else {
    add(Lane::compute, s.start, s.ready);
  }
  if (s.optimiser_s <= 0) {
    exchange(s.ready, s.end);
    return spans();
  }
  // Several calls are drawn as one, from the first, as far as the step goes.
  const double start =
      std::clamp(s.optimiser_at, s.ready, std::max(s.ready, s.end - s.optimiser_s));
  exchange(s.ready, start);
  add(Lane::compute, start, start + s.optimiser_s, "optimiser");
  exchange(start + s.optimiser_s, s.end);
  return spans();
}

Timeline::Timeline(const std::string& path, int workers, int ranks, std::uint64_t step)
    : path_(path) {
  std::string events = step > 0 ? events_until(path, step) : "";
  if (events.empty()) events = names_of(workers, ranks);
  std::string text(kOpening);
  text += events;
  end_ = static_cast<std::int64_t>(text.size());
  text += kClosing;
  write_whole(path, text);
  const OpenedFile file = open_to_write(path, O_WRONLY);
  if (file.descriptor < 0)
    throw InternalError(fmt::format("can't open {}: {}", path, file.why_not));
  fd_ = file.descriptor;
}

Timeline::~Timeline() { close(fd_); }

void Timeline::add(int rank, std::uint64_t step, const LaneEvent& event) {
  const auto out = std::back_inserter(kept_);
  const char* const lane = kLanes[static_cast<int>(event.lane)];
  fmt::format_to(out,
                 ",\n"
                 R"({{"name":"{}","cat":"{}","ph":"X","pid":{},"tid":{},)",
                 event.name ? event.name : lane, lane, process_of(rank),
                 thread_of(rank, event.lane));
  fmt::format_to(out, R"("ts":{:.3f},"dur":{:.3f},"args":{{"step":{})", 1e6 * event.start,
                 1e6 * (event.end - event.start), step);
  if (event.span)
    fmt::format_to(out, R"(,"bucket":{},"bytes":{})", event.span->bucket, event.span->bytes);
  fmt::format_to(out, "}}}}");
}

void Timeline::flush() {
  if (kept_.size() == 0) return;
  const std::size_t events = kept_.size();
  kept_.append(kClosing);
  // Over the old closing brackets, in one call, so that nobody finds the file without them.
  const ssize_t written = pwrite(fd_, kept_.data(), kept_.size(), end_);
  if (written != static_cast<ssize_t>(kept_.size())) {
    if (written >= 0) errno = ENOSPC;  // a part of it, and why not more is known only next time
    const int error = errno;
    (void)!pwrite(fd_, kClosing.data(), kClosing.size(), end_);
    (void)!ftruncate(fd_, end_ + static_cast<std::int64_t>(kClosing.size()));
    errno = error;
    throw_errno("can't write " + path_);
  }
  end_ += static_cast<std::int64_t>(events);
  kept_.clear();
}

}  // namespace lockstep
