// A count that each of some workers tells all others from time to time. No worker waits for
// another: the message is short, and so arrives while its sender computes.
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

  // Sends the count to all others, and does not wait for that. Waits for what was told before.
  void tell(std::uint64_t count);
  // Waits until all that was told is sent.
  void end();
  struct Heard {
    int from;
    std::uint64_t count;
  };
  // The next count that has arrived, if any has.
  std::optional<Heard> hear();

 private:
  Transport& peers_;
  const Tag tag_;
  const int workers_;
  std::uint64_t told_ = 0;  // stays until it is sent
  std::vector<Pending> sends_;
};

}  // namespace lockstep
