#include "cluster/netns.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "cluster/child.h"
#include "core/cgroups.h"
#include "core/error.h"

namespace lockstep {
namespace {

int current_namespace() {
  const int fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw_errno("/proc/thread-self/ns/net");
  return fd;
}

// A new one, empty but for a loopback device that is down.
int new_namespace() {
  const int before = current_namespace();
  if (unshare(CLONE_NEWNET) != 0) {
    const int error = errno;
    close(before);
    throw UsageError(
        fmt::format("hosts in network namespaces need root (CAP_SYS_ADMIN and CAP_NET_ADMIN): {}",
                    strerror(error)));
  }
  const int made = current_namespace();
  const bool back = setns(before, CLONE_NEWNET) == 0;
  close(before);
  if (!back) throw_errno("returning from a new network namespace");
  return made;
}

// Runs `ip …` or `tc …` in a namespace; words are separated by blanks.
void run_in(int ns_fd, const std::string& command) {
  std::istringstream words(command);
  std::vector<std::string> argv;
  for (std::string word; words >> word;) argv.push_back(word);
  auto environment = environment_with({});
  const auto arguments = pointers_to(argv), variables = pointers_to(environment);
  pid_t pid = 0;
  int status = 0;
  const InNamespace inside(ns_fd);
  const int error =
      posix_spawnp(&pid, arguments[0], nullptr, nullptr, arguments.data(), variables.data());
  if (error != 0)
    throw UsageError(fmt::format("hosts in network namespaces need {} of iproute2: {}", argv[0],
                                 strerror(error)));
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (status != 0)
    throw UsageError(
        fmt::format("hosts in network namespaces could not be set up: \"{}\" failed", command));
}

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

std::string path_of(int fd) { return fmt::format("/proc/{}/fd/{}", getpid(), fd); }

}  // namespace

InNamespace::InNamespace(int ns_fd) : before_(current_namespace()) {
  if (setns(ns_fd, CLONE_NEWNET) == 0) return;
  close(before_);
  throw_errno("entering a network namespace");
}

InNamespace::~InNamespace() {
  // To carry on in the wrong network would be worse than to end.
  if (setns(before_, CLONE_NEWNET) != 0) std::terminate();
  close(before_);
}

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

NetnsHosts::NetnsHosts(const NetnsOptions& options) {
  if (options.hosts < 1 || options.hosts > 250 || options.ranks_per_host < 1)
    throw UsageError(
        fmt::format("{} hosts with {} ranks each cannot be: 1 to 250 hosts, at least 1 rank each",
                    options.hosts, options.ranks_per_host));
  bridge_ = new_namespace();
  run_in(bridge_, "ip link set lo up");
  run_in(bridge_, "ip link add bridge0 type bridge");
  run_in(bridge_, "ip addr add " + bridge_address() + "/24 dev bridge0");
  run_in(bridge_, "ip link set bridge0 up");
  for (int host = 0; host < options.hosts; ++host) {
    hosts_.push_back(new_namespace());
    connect(host);
    groups_.push_back(std::make_unique<HostCgroup>(host));
    if (options.bandwidth_bits_per_s > 0) shape(host, options.bandwidth_bits_per_s);
  }
}

NetnsHosts::~NetnsHosts() {
  for (int fd : hosts_) close(fd);
  close(bridge_);
}

void NetnsHosts::connect(int host) {
  const std::string port = fmt::format("host{}", host);
  run_in(bridge_, fmt::format("ip link add {} type veth peer name {} netns {}", port, kIface,
                              path_of(hosts_[host])));
  run_in(bridge_, fmt::format("ip link set {} master bridge0 up", port));
  run_in(hosts_[host], "ip link set lo up");
  run_in(hosts_[host], fmt::format("ip addr add {}/24 dev {}", address_of(host), kIface));
  run_in(hosts_[host], fmt::format("ip link set {} up", kIface));
}

void NetnsHosts::shape(int host, double bits_per_s) {
  // A bucket of 2 ms of traffic, and at least four of the 64 KiB packets that the kernel hands down
  // in one piece; a queue of 20 ms. At 1 Gbit/s raw TCP then gets 95 % of it, also both ways at
  // once.
  const double burst_bytes = std::max(bits_per_s / 8 * 2e-3, 4.0 * 65536);
  const std::string rule =
      fmt::format("root tbf rate {:.0f}bit burst {:.0f} latency 20ms", bits_per_s, burst_bytes);
  run_in(hosts_[host], fmt::format("tc qdisc add dev {} {}", kIface, rule));
  run_in(bridge_, fmt::format("tc qdisc add dev host{} {}", host, rule));
}

}  // namespace lockstep
