// When a rank did which part of exchanging a bucket of gradients: written by the exchange, shown by
// the timeline.
#pragma once

#include <cstdint>

namespace lockstep {

struct BucketSpan {
  enum class Part : std::uint8_t { encode, exchange, decode };
  Part part = Part::exchange;
  std::uint32_t bucket = 0;   // in the order in which they are sent
  double start = 0, end = 0;  // seconds
  std::uint64_t bytes = 0;    // of the messages that it made, sent or took in
};

}  // namespace lockstep
