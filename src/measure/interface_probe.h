// What a network interface has carried since it was made, by the kernel's count: headers and
// acknowledgements included. Belongs to one thread.
#pragma once

#include <optional>
#include <string>

#include "measure/proc_file.h"

namespace lockstep {

struct InterfaceFigures {
  std::uint64_t sent_bytes = 0, received_bytes = 0, sent_packets = 0, received_packets = 0;
};

class InterfaceProbe {
 public:
  // Of the network namespace that this process is in now.
  explicit InterfaceProbe(std::string name) : name_(std::move(name)), find_("\n" + pad() + ":") {}
  const std::string& name() const { return name_; }
  std::optional<InterfaceFigures> read();  // nothing if there is no such interface

 private:
  // As /proc/net/dev aligns names.
  std::string pad() const {
    return std::string(name_.size() < 6 ? 6 - name_.size() : 0, ' ') + name_;
  }

  const std::string name_, find_;
  ProcFile file_{"/proc/self/net/dev"};
};

}  // namespace lockstep
