#include "cluster/host_cgroup.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/cgroups.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

// Flushed, since the kernel answers when it is written.
bool write_to(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  return static_cast<bool>(file << text << std::flush);
}

// As systemd marks what `Delegate=yes` hands over.
bool delegated(const std::string& folder) {
  for (const char* mark : {"user.delegate", "trusted.delegate"}) {
    char value = 0;
    if (getxattr(folder.c_str(), mark, &value, 1) == 1 && value == '1') return true;
  }
  return false;
}

bool ours_to_divide(const CgroupPlace& place) {
  const bool top = place.path == "/" || place.path.empty();
  return (top || delegated(place.folder)) && access(place.folder.c_str(), W_OK) == 0;
}

bool of_interest(const CgroupPlace& place) {
  for (const char* controller : {"cpuacct", "memory", "blkio", "pids"})
    if (place.has(controller)) return true;
  return place.controllers.empty();
}

// A group that has a process in it can't be removed, so this can't hit a host that is in use.
void remove_leftovers(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(HostCgroup::kPrefix)) continue;
    const int pid = std::atoi(name.c_str() + std::string_view(HostCgroup::kPrefix).size());
    if (pid > 0 && kill(pid, 0) != 0 && errno == ESRCH) rmdir(entry.path().c_str());
  }
}

}  // namespace

HostCgroup::HostCgroup(int host) {
  for (const CgroupPlace& place : cgroup_places()) {
    if (!of_interest(place) || !ours_to_divide(place)) continue;
    remove_leftovers(place.folder);
    if (place.controllers.empty())  // each for itself: what one refuses, another may grant
      for (const char* controller : {"+cpu", "+memory", "+io", "+pids"})
        write_to(place.folder + "/cgroup.subtree_control", controller);
    const std::string made = fmt::format("{}/{}{}-host{}", place.folder, kPrefix, getpid(), host);
    if (mkdir(made.c_str(), 0755) == 0) folders_.push_back(made);
  }
}

HostCgroup::~HostCgroup() {
  for (const std::string& folder : folders_) rmdir(folder.c_str());
}

void HostCgroup::admit(int pid) const {
  for (const std::string& folder : folders_)
    write_to(folder + "/cgroup.procs", std::to_string(pid));
}

}  // namespace lockstep
