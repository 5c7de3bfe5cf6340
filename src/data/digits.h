// Generated digit images for machines with no data: strokes as a hand draws them, slanted, bent,
// thick or thin, with noise. Learnable, and not trivially so.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace lockstep {

inline constexpr int kDigitSide = 28;
inline constexpr std::size_t kDigitPixels = kDigitSide * kDigitSide;

// Draws image number `index` (0 background, 255 ink) and returns its digit. The same (seed, index)
// gives the same image.
int draw_digit(std::uint64_t seed, std::uint32_t index,
               std::span<std::uint8_t, kDigitPixels> image);

}  // namespace lockstep
