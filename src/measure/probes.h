// What the kernel counts of this process, of a network interface and of a control group. Each probe
// opens its files once and reads them over and over into the same buffer, without allocation, so
// that asking ten times a second is cheap. Each belongs to one thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/cgroups.h"

namespace lockstep {

// A file of /proc or of a control group.
class ProcFile {
 public:
  explicit ProcFile(const std::string& path);
  ~ProcFile();
  ProcFile(const ProcFile&) = delete;

  bool there() const { return fd_ >= 0; }
  // Its first 8 KiB as they are now; empty if it can't be read. Valid until the next call.
  std::string_view read();

 private:
  int fd_;
  std::array<char, 8192> text_;
};

// The first number at or after the end of the first `name`; nothing where there is none.
std::optional<std::uint64_t> number_after(std::string_view text, std::string_view name);
// The number that the text starts with, blanks apart; takes it, and what was before it, off.
std::optional<std::uint64_t> next_number(std::string_view& text);

// What this process has used of the machine so far, all threads together.
struct ProcessFigures {
  double user_s = 0, system_s = 0;
  // Resident now. Private: anonymous memory (heap, stacks). Shared: what others may map too, that
  // is windows, also a rank's own (RssShmem), and files, programs among them (RssFile).
  std::uint64_t private_bytes = 0, shared_bytes = 0;
  std::uint64_t peak_rss_bytes = 0;  // the most that was ever resident
  std::uint64_t threads = 0;
  std::uint64_t switches_voluntary = 0, switches_involuntary = 0;
  // That went to and came from a device: 0 on tmpfs, and what the page cache answers is not read.
  std::uint64_t disk_read_bytes = 0, disk_written_bytes = 0;
};

class ProcessProbe {
 public:
  ProcessFigures read();

 private:
  ProcFile status_{"/proc/self/status"}, io_{"/proc/self/io"};
};

// What a network interface has carried since it was made, headers and acknowledgements included.
struct InterfaceFigures {
  std::uint64_t sent_bytes = 0, received_bytes = 0, sent_packets = 0, received_packets = 0;
};

class InterfaceProbe {
 public:
  // Of the network namespace that this process is in now.
  explicit InterfaceProbe(std::string name) : name_(std::move(name)), find_("\n" + pad() + ":") {}
  const std::string& name() const { return name_; }
  std::optional<InterfaceFigures> read();  // nothing if there is no such interface

 private:
  // As /proc/net/dev aligns names.
  std::string pad() const {
    return std::string(name_.size() < 6 ? 6 - name_.size() : 0, ' ') + name_;
  }

  const std::string name_, find_;
  ProcFile file_{"/proc/self/net/dev"};
};

// What the control group of this process's host uses: the columns of `docker stats`. Version 1 and
// 2; a figure whose controller this host has no group of is missing.
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

  bool there_ = false;
  File cpu_ns_, cpu_stat_, memory_, memory_stat_, memory_limit_, io_stat_, blkio_, pids_;
  std::uint64_t machine_bytes_;
};

}  // namespace lockstep
