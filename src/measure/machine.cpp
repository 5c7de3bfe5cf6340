#include "measure/machine.h"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>

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

}  // namespace lockstep
