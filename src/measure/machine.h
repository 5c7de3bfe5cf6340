// What a run ran on, as far as it matters to compare figures, what it used of it, and which core of
// it a rank stays on.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

struct Machine {
  std::string host, processor, kernel;
  int cores = 1;  // that this process may use
  std::uint64_t memory_bytes = 0;
};
Machine this_machine();

// What this process has used of the machine over some time.
struct Usage {
  double cpu_percent = 0;  // 100 is one core; over the time in question
  std::uint64_t peak_rss_bytes = 0;
  std::uint64_t shared_bytes = 0;  // of the memory in use now, what others may map too
  std::uint64_t disk_read_bytes = 0, disk_written_bytes = 0;
};

// `since`: what a ProcessProbe said so many seconds ago.
struct ProcessFigures;
Usage usage_since(const ProcessFigures& since, double seconds);

// For ranks that meet every few microseconds or milliseconds, as mpirun does for its ranks: where
// each can have a core of its own, it stays there. Else two that meet often may share one for a
// whole measurement.
void bind_to_core(int rank, int ranks);

}  // namespace lockstep
