// The network interface that a rank's data goes through.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

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
