// Which machine this process is on, as far as sharing memory and finding each other goes;
// addresses, and the network interfaces that it has.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

// Equal for two processes that can open each other's memory files and meet on one network: boot,
// process namespace, network namespace and user. So each host of a netns cluster counts as a host
// of its own.
std::string host_identity();
// For people.
std::string host_name();

// HOST:PORT as people write it: 10.0.0.1:29500, node7:29500, [::1]:29500.
struct Address {
  std::string host;
  int port = 0;
  std::string text() const;
};

// `what` names the value in an error, e.g. "--join". Without a port: `port_if_none`; -1: UsageError
// then.
Address parse_address(const std::string& text, const std::string& what, int port_if_none = -1);

// A network interface that a rank's data may go through.
struct Iface {
  std::string name;     // eth0
  std::string address;  // 10.0.0.7, without the prefix length
};

// Interfaces of this network namespace that are up and have an address; loopback too. IPv4 before
// IPv6.
std::vector<Iface> interfaces();

// By name, or by the network it is in: `eth0`, `10.0.0.0/8`. UsageError lists those present.
Iface find_interface(const std::string& name_or_cidr);

}  // namespace lockstep
