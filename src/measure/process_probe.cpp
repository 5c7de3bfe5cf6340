#include "measure/process_probe.h"

#include <sys/resource.h>

namespace lockstep {
namespace {

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

}  // namespace

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
  f.threads = of(status, "Threads:");
  const std::string_view io = io_.read();
  f.disk_read_bytes = of(io, "\nread_bytes:");
  f.disk_written_bytes = of(io, "\nwrite_bytes:");
  return f;
}

}  // namespace lockstep
