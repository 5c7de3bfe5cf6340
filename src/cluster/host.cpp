#include "cluster/host.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <memory>
#include <optional>

#include "core/error.h"
#include "core/units.h"

namespace lockstep {
namespace {

ino_t namespace_number(const char* path) {
  struct stat info {};
  if (stat(path, &info) != 0) throw_errno(path);
  return info.st_ino;
}

struct Bits {
  int family = 0;
  std::array<unsigned char, 16> bytes{};
  int length() const { return family == AF_INET ? 32 : 128; }
};

std::optional<Bits> bits_of(const std::string& text) {
  Bits bits;
  for (int family : {AF_INET, AF_INET6}) {
    bits.family = family;
    if (inet_pton(family, text.c_str(), bits.bytes.data()) == 1) return bits;
  }
  return std::nullopt;
}

bool same_prefix(const Bits& a, const Bits& b, int length) {
  if (a.family != b.family) return false;
  for (int i = 0; i < length; ++i) {
    const int mask = 0x80 >> (i % 8);
    if ((a.bytes[i / 8] ^ b.bytes[i / 8]) & mask) return false;
  }
  return true;
}

std::string text_of(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  const void* bits =
      address->sa_family == AF_INET
          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(address)->sin_addr)
          : &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  inet_ntop(address->sa_family, bits, text, sizeof text);
  return text;
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

std::string Address::text() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

Address parse_address(const std::string& text, const std::string& what, int port_if_none) {
  const auto colon = text.rfind(':');
  const bool bracketed = !text.empty() && text.front() == '[';
  const bool has_port =
      colon != std::string::npos && (bracketed ? text[colon - 1] == ']' : text.find(':') == colon);
  Address address{has_port ? text.substr(0, colon) : text, port_if_none};
  if (bracketed && address.host.back() == ']')
    address.host = address.host.substr(1, address.host.size() - 2);
  if (address.host.empty() || (!has_port && port_if_none < 0))
    throw UsageError(
        fmt::format("{} is \"{}\"; it must be HOST:PORT, e.g. 10.0.0.1:29500", what, text));
  if (has_port)
    address.port = parse_integer("the port of " + what, text.substr(colon + 1), 0, 65535);
  return address;
}

std::vector<Iface> interfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) throw_errno("getifaddrs");
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  std::vector<Iface> found;
  for (int family : {AF_INET, AF_INET6})
    for (const ifaddrs* i = list; i; i = i->ifa_next)
      if (i->ifa_addr && i->ifa_addr->sa_family == family && (i->ifa_flags & IFF_UP))
        found.push_back({i->ifa_name, text_of(i->ifa_addr)});
  return found;
}

Iface find_interface(const std::string& wanted) {
  const auto present = interfaces();
  const auto slash = wanted.find('/');
  const auto network = bits_of(wanted.substr(0, slash));
  int length = network ? network->length() : 0;
  if (network && slash != std::string::npos)
    length = parse_integer("the prefix length of --iface", wanted.substr(slash + 1), 0, length);
  for (const auto& iface : present)
    if (network ? same_prefix(*network, *bits_of(iface.address), length) : iface.name == wanted)
      return iface;
  std::string list;
  for (const auto& iface : present)
    list += fmt::format("{}{} ({})", list.empty() ? "" : ", ", iface.name, iface.address);
  throw UsageError(fmt::format("no interface matches --iface {}; present are {}", wanted,
                               list.empty() ? "none" : list));
}

}  // namespace lockstep
