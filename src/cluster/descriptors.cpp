#include "cluster/descriptors.h"

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>

#include "core/error.h"

namespace lockstep {

namespace {

constexpr rlim_t kMost = 1 << 20;  // where there is no limit

int open_descriptors() {
  std::error_code unreadable;
  const std::filesystem::directory_iterator open("/proc/self/fd", unreadable);
  return unreadable ? 0 : static_cast<int>(std::distance(begin(open), end(open)));
}

rlimit descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) throw_errno("getrlimit");
  return limit;
}

}  // namespace

int free_descriptors() {
  return static_cast<int>(std::min(descriptor_limit().rlim_cur, kMost)) - open_descriptors();
}

void reserve_descriptors(const std::string& who, int count) {
  if (free_descriptors() >= count) return;
  const auto needed = static_cast<rlim_t>(open_descriptors() + count);
  rlimit limit = descriptor_limit();
  if (limit.rlim_max < needed)
    throw UsageError(
        fmt::format("{} needs {} descriptors, and this process may open {} at most: allow it more "
                    "(ulimit -n {})",
                    who, needed, limit.rlim_max, needed));
  limit.rlim_cur = needed;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) throw_errno("setrlimit");
}

}  // namespace lockstep
