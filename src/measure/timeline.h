// timeline.json: what every rank did when, as a Chrome trace that Perfetto and chrome://tracing
// open. A process for each rank, in it a lane each for compute, communicate, wait and evaluate;
// where gradients go in buckets, communicate has what was done with each of them, beside backward
// where they overlap. The file is whole JSON after every write.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

#include "measure/step_clock.h"

namespace lockstep {

// The steps that are shown, counted from 1: FIRST-LAST, all or none. UsageError.
struct StepWindow {
  std::uint64_t first = 1, last = 0;
  bool has(std::uint64_t step) const { return first <= step && step <= last; }
};
StepWindow step_window(const std::string& text);

enum class Lane { compute, communicate, wait, evaluate };
struct LaneEvent {
  Lane lane;
  double start = 0, end = 0;
  const char* name = nullptr;        // none: the lane's
  const BucketSpan* span = nullptr;  // whose bucket and bytes are shown; outlives this
};
// A settled step in order of time: exchanging is waiting first, around what the optimiser took. In
// place of that the lane of communication has the spans of buckets, if there are any, at the end.
// The step outlives what this returns.
std::vector<LaneEvent> lanes_of(const TimedStep&);

class Timeline {
 public:
  // Of `ranks` ranks, servers after the workers. Goes on with what `path` holds up to `step`: what
  // it has of later steps, or damaged, is dropped. InternalError.
  Timeline(const std::string& path, int workers, int ranks, std::uint64_t step);
  ~Timeline();
  Timeline(const Timeline&) = delete;

  // Times in seconds since the run's start. Kept until flush().
  void add(int rank, std::uint64_t step, const LaneEvent&);
  void flush();

 private:
  const std::string path_;
  int fd_ = -1;
  std::int64_t end_ = 0;  // where the closing brackets are
  fmt::memory_buffer kept_;
};

}  // namespace lockstep
