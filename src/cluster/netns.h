// Hosts on one machine: K network namespaces joined by a bridge in one more. They have no names:
// they live as long as a descriptor or a process in them, so nothing is left behind however we end
// (but for empty control groups, which the next launch removes).
// Needs root (CAP_NET_ADMIN, CAP_SYS_ADMIN) and iproute2.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace lockstep {

struct NetnsOptions {
  int hosts = 2;
  int ranks_per_host = 1;
  double bandwidth_bits_per_s = 0;  // each way of each host's link; 0: as fast as it goes
};

// The calling thread is in the namespace while this lives.
class InNamespace {
 public:
  explicit InNamespace(int ns_fd);
  ~InNamespace();
  InNamespace(const InNamespace&) = delete;

 private:
  int before_;
};

// A control group for each host in a network namespace, so that a host's use can be told from the
// others', as `docker stats` does. Made below our own place in a hierarchy, and only where that is
// the top of what we see or was given to us to divide ("delegated"): elsewhere somebody else keeps
// these groups, and our processes stay where they were put. Controllers that can't be had so are
// done without, silently: nothing but a few figures depends on them.
class HostCgroup {
 public:
  // What our groups' names start with; our process number and the host's follow.
  static constexpr const char* kPrefix = "lockstep-";

  // Also removes what launchers that were killed left behind.
  explicit HostCgroup(int host);
  // REQUIRES: the processes in it have ended.
  ~HostCgroup();
  HostCgroup(const HostCgroup&) = delete;

  // Moves a process into it.
  void admit(int pid) const;
  const std::vector<std::string>& folders() const { return folders_; }  // one a hierarchy

 private:
  std::vector<std::string> folders_;
};

class NetnsHosts {
 public:
  static constexpr const char* kIface = "eth0";  // in every host
  // UsageError when not allowed to.
  explicit NetnsHosts(const NetnsOptions&);
  ~NetnsHosts();
  NetnsHosts(const NetnsHosts&) = delete;

  int host_fd(int host) const { return hosts_.at(host); }
  // A process that runs on it, for the host's own count of what it uses.
  void admit(int host, int pid) const { groups_.at(host)->admit(pid); }
  int bridge_fd() const { return bridge_; }
  static std::string address_of(int host) { return "10.77.0." + std::to_string(host + 1); }
  static std::string bridge_address() { return "10.77.0.254"; }

 private:
  void connect(int host);
  void shape(int host, double bits_per_s);

  int bridge_ = -1;
  std::vector<int> hosts_;
  std::vector<std::unique_ptr<HostCgroup>> groups_;
};

}  // namespace lockstep
