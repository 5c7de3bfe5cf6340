#include "cluster/host.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "core/error.h"

namespace lockstep {

namespace {

ino_t namespace_number(const char* path) {
  struct stat info {};
  if (stat(path, &info) != 0) throw_errno(path);
  return info.st_ino;
}

}  // namespace

std::string host_identity() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id") >> std::ws, boot);
  return fmt::format("{} pid:{} net:{} uid:{}", boot, namespace_number("/proc/self/ns/pid"),
                     namespace_number("/proc/self/ns/net"), geteuid());
}

std::string host_name() {
  char name[256] = "?";
  gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace lockstep
