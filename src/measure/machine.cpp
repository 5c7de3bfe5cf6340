#include "measure/machine.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace lockstep {
namespace {

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown";
}

int cores_allowed() {
  cpu_set_t allowed;
  return sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
}

}  // namespace

Machine this_machine() {
  utsname names{};
  uname(&names);
  return {names.nodename, processor_name(), names.release, cores_allowed(),
          static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
              static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE))};
}

namespace {

// "name: 123 …" in a file of /proc; 0 where the kernel does not tell.
std::uint64_t field_of(const char* path, const std::string& name) {
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    if (word != name) continue;
    std::uint64_t value = 0;
    file >> value;
    return value;
  }
  return 0;
}

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

}  // namespace

UsageMark usage_now() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return {seconds_of(used.ru_utime) + seconds_of(used.ru_stime),
          field_of("/proc/self/io", "read_bytes:"), field_of("/proc/self/io", "write_bytes:")};
}

Usage usage_since(const UsageMark& since, double seconds) {
  const UsageMark now = usage_now();
  constexpr std::uint64_t kKiB = 1024;
  return {seconds > 0 ? 100 * (now.cpu_s - since.cpu_s) / seconds : 0,
          kKiB * field_of("/proc/self/status", "VmHWM:"),
          kKiB * (field_of("/proc/self/status", "RssShmem:") +
                  field_of("/proc/self/status", "RssFile:")),
          now.disk_read_bytes - since.disk_read_bytes,
          now.disk_written_bytes - since.disk_written_bytes};
}

}  // namespace lockstep
