// Hosts on one machine: K network namespaces joined by a bridge in one more. They have no names:
// they live as long as a descriptor or a process in them, so nothing is left behind however we end
// (but for empty control groups, which the next launch removes).
// Needs root (CAP_NET_ADMIN, CAP_SYS_ADMIN) and iproute2.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cluster/host_cgroup.h"

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
  static std::string address_of(int host);  // 10.77.0.1 and on
  static std::string bridge_address();

 private:
  void connect(int host);
  void shape(int host, double bits_per_s);

  int bridge_ = -1;
  std::vector<int> hosts_;
  std::vector<std::unique_ptr<HostCgroup>> groups_;
};

}  // namespace lockstep
