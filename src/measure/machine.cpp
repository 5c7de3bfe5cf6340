#include "measure/machine.h"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>

#include "measure/probes.h"

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

Usage usage_since(const ProcessFigures& since, double seconds) {
  const ProcessFigures now = ProcessProbe().read();
  const double cpu_s = now.user_s + now.system_s - since.user_s - since.system_s;
  return {seconds > 0 ? 100 * cpu_s / seconds : 0, now.peak_rss_bytes, now.shared_bytes,
          now.disk_read_bytes - since.disk_read_bytes,
          now.disk_written_bytes - since.disk_written_bytes};
}

void bind_to_core(int rank, int ranks) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || ranks > CPU_COUNT(&allowed)) return;
  for (int core = 0, left = rank; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &allowed) || left-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

}  // namespace lockstep
