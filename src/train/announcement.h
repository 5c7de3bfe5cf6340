// A count that each of some workers tells all others from time to time. Nobody waits for anybody:
// it is short, and so arrives without the help of the one that told it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "transport/transport.h"

namespace lockstep {

class Announcement {
 public:
  // Among ranks 0 to `workers` - 1. The transport outlives it.
  Announcement(Transport& peers, Tag tag, int workers)
      : peers_(peers), tag_(tag), workers_(workers) {}
  Announcement(const Announcement&) = delete;

  // Ends what was told before, and does not wait for what is told now.
  void tell(std::uint64_t count);
  // Until all that was told is sent.
  void end();
  struct Heard {
    int from;
    std::uint64_t count;
  };
  // What has arrived: nothing, if nothing has.
  std::optional<Heard> hear();

 private:
  Transport& peers_;
  const Tag tag_;
  const int workers_;
  std::uint64_t told_ = 0;  // stays until it is sent
  std::vector<Pending> sends_;
};

}  // namespace lockstep
