#include "measure/probes.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "core/units.h"
#include "measure/machine.h"

namespace lockstep {
namespace {

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

void open_once(std::unique_ptr<ProcFile>& file, const std::string& path) {
  if (file) return;
  file = std::make_unique<ProcFile>(path);
  if (!file->there()) file.reset();
}

std::optional<std::uint64_t> first_number(ProcFile& file) {
  std::string_view text = file.read();
  return next_number(text);
}

// The sum of the numbers after every `name`: a line for each device.
std::uint64_t sum_after(std::string_view text, std::string_view name) {
  std::uint64_t sum = 0;
  for (std::size_t at; (at = text.find(name)) != std::string_view::npos;) {
    text.remove_prefix(at + name.size());
    sum += next_number(text).value_or(0);
  }
  return sum;
}

}  // namespace

ProcFile::ProcFile(const std::string& path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}

ProcFile::~ProcFile() {
  if (fd_ >= 0) close(fd_);
}

std::string_view ProcFile::read() {
  if (fd_ < 0) return {};
  const ssize_t got = pread(fd_, text_.data(), text_.size(), 0);
  return {text_.data(), got > 0 ? static_cast<std::size_t>(got) : 0};
}

std::optional<std::uint64_t> next_number(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  return take_number<std::uint64_t>(text);
}

std::optional<std::uint64_t> number_after(std::string_view text, std::string_view name) {
  const std::size_t at = text.find(name);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + name.size());
  return next_number(text);
}

ProcessFigures ProcessProbe::read() {
  constexpr std::uint64_t kKiB = 1024;
  ProcessFigures f;
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  f.user_s = seconds_of(used.ru_utime);
  f.system_s = seconds_of(used.ru_stime);
  // Not those in /proc/self/status, which are the first thread's alone.
  f.switches_voluntary = static_cast<std::uint64_t>(used.ru_nvcsw);
  f.switches_involuntary = static_cast<std::uint64_t>(used.ru_nivcsw);
  const std::string_view status = status_.read();
  const auto of = [](std::string_view text, std::string_view name) {
    return number_after(text, name).value_or(0);
  };
  f.private_bytes = kKiB * of(status, "RssAnon:");
  f.shared_bytes = kKiB * (of(status, "RssFile:") + of(status, "RssShmem:"));
  f.peak_rss_bytes = kKiB * of(status, "VmHWM:");
  f.threads = of(status, "Threads:");
  const std::string_view io = io_.read();
  f.disk_read_bytes = of(io, "\nread_bytes:");
  f.disk_written_bytes = of(io, "\nwrite_bytes:");
  return f;
}

std::optional<InterfaceFigures> InterfaceProbe::read() {
  std::string_view text = file_.read();
  const std::size_t at = text.find(find_);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + find_.size());
  std::array<std::uint64_t, 10> column{};  // bytes packets …6 more received, bytes packets … sent
  for (std::uint64_t& value : column) {
    const auto number = next_number(text);
    if (!number) return {};
    value = *number;
  }
  return InterfaceFigures{column[8], column[0], column[9], column[1]};
}

CgroupProbe::CgroupProbe(const std::string& prefix) : machine_bytes_(this_machine().memory_bytes) {
  // Version 2 has one hierarchy, without a list of controllers.
  const struct {
    File& file;
    const char *controller, *name, *name_v2;
  } files[] = {{cpu_ns_, "cpuacct", "cpuacct.usage", nullptr},
               {cpu_stat_, nullptr, nullptr, "cpu.stat"},
               {memory_, "memory", "memory.usage_in_bytes", "memory.current"},
               {memory_stat_, "memory", "memory.stat", "memory.stat"},
               {memory_limit_, "memory", "memory.limit_in_bytes", "memory.max"},
               {blkio_, "blkio", "blkio.throttle.io_service_bytes_recursive", nullptr},
               {io_stat_, nullptr, nullptr, "io.stat"},
               {pids_, "pids", "pids.current", "pids.current"}};
  for (const CgroupPlace& place : cgroup_places()) {
    if (!place.path.substr(place.path.rfind('/') + 1).starts_with(prefix)) continue;
    there_ = true;
    const bool v2 = place.controllers.empty();
    for (const auto& [file, controller, name, name_v2] : files)
      if (v2 ? name_v2 != nullptr : name && place.has(controller))
        open_once(file, place.folder + "/" + (v2 ? name_v2 : name));
  }
}

CgroupFigures CgroupProbe::read() {
  CgroupFigures f;
  if (cpu_ns_) {
    if (const auto ns = first_number(*cpu_ns_)) f.cpu_s = 1e-9 * static_cast<double>(*ns);
  } else if (cpu_stat_) {
    const auto us = number_after(cpu_stat_->read(), "usage_usec");
    if (us) f.cpu_s = 1e-6 * static_cast<double>(*us);
  }
  if (memory_) f.memory_bytes = first_number(*memory_);
  if (f.memory_bytes && memory_stat_) {
    const std::string_view stat = memory_stat_->read();
    const auto hierarchical = number_after(stat, "\ntotal_inactive_file");  // version 1
    const auto droppable = hierarchical ? hierarchical : number_after(stat, "\ninactive_file");
    *f.memory_bytes -= std::min(*f.memory_bytes, droppable.value_or(0));
  }
  if (memory_limit_)  // "max": none
    f.memory_limit_bytes =
        std::min(first_number(*memory_limit_).value_or(machine_bytes_), machine_bytes_);
  if (blkio_ || io_stat_) {
    const std::string_view text = (blkio_ ? blkio_ : io_stat_)->read();
    f.disk_read_bytes = sum_after(text, blkio_ ? " Read " : " rbytes=");
    f.disk_written_bytes = sum_after(text, blkio_ ? " Write " : " wbytes=");
  }
  if (pids_) f.pids = first_number(*pids_);
  return f;
}

}  // namespace lockstep
