// What this process has used of the machine since it started, or since `since`.
#pragma once

#include <cstdint>

namespace lockstep {

struct Usage {
  double cpu_percent = 0;  // 100 is one core; over the time in question
  std::uint64_t peak_rss_bytes = 0;
  std::uint64_t shared_bytes = 0;  // of the memory in use now, what others may map too
  std::uint64_t disk_read_bytes = 0, disk_written_bytes = 0;
};

// Counters that only grow, to subtract from later ones.
struct UsageMark {
  double cpu_s = 0;
  std::uint64_t disk_read_bytes = 0, disk_written_bytes = 0;
};
UsageMark usage_now();
// `seconds`: how long ago `since` was taken.
Usage usage_since(const UsageMark& since, double seconds);

}  // namespace lockstep
