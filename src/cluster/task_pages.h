// A task's indices on their way between coordinator and ranks: 4 bytes each, little end first.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"

namespace lockstep {

static_assert(std::endian::native == std::endian::little);

inline std::string text_of(std::span<const std::uint32_t> indices) {
  return {reinterpret_cast<const char*>(indices.data()), indices.size_bytes()};
}

inline std::vector<std::uint32_t> indices_in(const std::string& text) {
  if (text.size() % 4 != 0)
    throw UsageError(fmt::format("{} bytes of indices: they have 4 each", text.size()));
  std::vector<std::uint32_t> indices(text.size() / 4);
  std::memcpy(indices.data(), text.data(), text.size());
  return indices;
}

}  // namespace lockstep
