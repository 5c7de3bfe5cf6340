// One look at a rank and its process, and the file of them: worker-R.jsonl of docs/formats.md.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>

#include "measure/cgroup_probe.h"
#include "measure/interface_probe.h"
#include "measure/ledger.h"
#include "measure/process_probe.h"

namespace lockstep {

// What a rank knows of itself, at the end of a step.
struct RankProgress {
  std::uint64_t steps = 0;  // taken
  Traffic exchange, other;  // so far, by the strategy and for all else
};

struct Sample {
  double t = 0;  // seconds since the run's start
  RankProgress rank;
  // Null in the file where missing. Shares of a core since the sample before.
  std::optional<ProcessFigures> process;
  double user_percent = 0, system_percent = 0;
  std::string_view interface_name;
  std::optional<InterfaceFigures> interface;
  std::optional<CgroupFigures> cgroup;
  std::optional<double> cgroup_percent;
};

class SampleFile {
 public:
  // Appends to `path`, first the line `header`. InternalError.
  SampleFile(const std::string& path, const std::string& header);
  // Does not write what was not flushed.
  ~SampleFile();
  SampleFile(const SampleFile&) = delete;

  // Kept until flush().
  void add(const Sample&);
  // Whole lines to the kernel, so that a crash of this process leaves them readable.
  void flush();

 private:
  const std::string path_;
  int fd_ = -1;
  fmt::memory_buffer kept_;
};

}  // namespace lockstep
