// What the control group of this process's host uses: the columns of `docker stats`. Version 1 and
// 2; a figure whose controller this host has no group of is missing. Belongs to one thread.
#pragma once

#include <memory>
#include <optional>

#include "core/cgroups.h"
#include "measure/proc_file.h"

namespace lockstep {

struct CgroupFigures {
  std::optional<double> cpu_s;
  // Without files that the kernel could drop at any time; the limit is the machine's memory where
  // none is set.
  std::optional<std::uint64_t> memory_bytes, memory_limit_bytes;
  std::optional<std::uint64_t> disk_read_bytes, disk_written_bytes;
  std::optional<std::uint64_t> pids;
};

class CgroupProbe {
 public:
  // Only groups whose own name starts with `prefix` count: others are not this host's alone.
  explicit CgroupProbe(const std::string& prefix);
  bool there() const { return there_; }
  CgroupFigures read();

 private:
  using File = std::unique_ptr<ProcFile>;  // none: no such figure
  void open_v1(const CgroupPlace&);
  void open_v2(const CgroupPlace&);
  void read_disk(CgroupFigures&);

  bool there_ = false;
  File cpu_ns_, cpu_stat_, memory_, memory_stat_, memory_limit_, io_stat_, blkio_, pids_;
  std::uint64_t machine_bytes_;
};

}  // namespace lockstep
