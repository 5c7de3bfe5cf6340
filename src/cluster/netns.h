// Hosts on one machine: K network namespaces joined by a bridge in one more. They have no names:
// they live as long as a descriptor or a process in them, so nothing is left behind however we end.
// Needs root (CAP_NET_ADMIN, CAP_SYS_ADMIN) and iproute2.
#pragma once

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

class NetnsHosts {
 public:
  static constexpr const char* kIface = "eth0";  // in every host
  // UsageError when not allowed to.
  explicit NetnsHosts(const NetnsOptions&);
  ~NetnsHosts();
  NetnsHosts(const NetnsHosts&) = delete;

  int host_fd(int host) const { return hosts_.at(host); }
  int bridge_fd() const { return bridge_; }
  static std::string address_of(int host);  // 10.77.0.1 and on
  static std::string bridge_address();

 private:
  void connect(int host);
  void shape(int host, double bits_per_s);

  int bridge_ = -1;
  std::vector<int> hosts_;
};

}  // namespace lockstep
