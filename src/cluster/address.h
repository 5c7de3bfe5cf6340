// HOST:PORT as people write it: 10.0.0.1:29500, node7:29500, [::1]:29500.
#pragma once

#include <string>

namespace lockstep {

struct Address {
  std::string host;
  int port = 0;
  std::string text() const;
};

// `what` names the value in an error, e.g. "--join". Without a port: `port_if_none`; -1: UsageError
// then.
Address parse_address(const std::string& text, const std::string& what, int port_if_none = -1);

}  // namespace lockstep
