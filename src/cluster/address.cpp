#include "cluster/address.h"

#include "core/error.h"
#include "core/units.h"

namespace lockstep {

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

}  // namespace lockstep
