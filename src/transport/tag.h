// What a message is for. Sender and receiver match on (peer, purpose, number). The numbers that are
// taken are in channels.h.
#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep {

// The ledger counts by purpose. Keep the order: the numbers go over the wire.
enum class Purpose : std::uint8_t { control, setup, gradients, weights, evaluation, activations };
inline constexpr int kPurposes = 6;
constexpr std::string_view name_of(Purpose purpose) {
  constexpr std::string_view names[kPurposes] = {"control", "setup",      "gradients",
                                                 "weights", "evaluation", "activations"};
  return static_cast<int>(purpose) < kPurposes ? names[static_cast<int>(purpose)] : "?";
}

struct Tag {
  Purpose purpose = Purpose::gradients;
  std::uint32_t number = 0;  // 24 bits; e.g. the bucket
  // Not matched but compared: Values::format() at the sender must equal the receiver's, so that
  // fp32 never lands in fp64.
  std::uint8_t format = 0;

  // What is matched, in 32 bits.
  std::uint32_t key() const { return std::uint32_t(purpose) << 24 | (number & 0xffffff); }
  Tag with_format(std::uint8_t f) const { return {purpose, number, f}; }
};

}  // namespace lockstep
