// Files for tests of data.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "folder.h"

namespace lockstep::testing {

inline void write_file(const std::filesystem::path& path, const std::string& bytes) {
  create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator(in), {}};
}

// Big end first.
inline std::string number(std::uint32_t n) {
  return {static_cast<char>(n >> 24), static_cast<char>(n >> 16), static_cast<char>(n >> 8),
          static_cast<char>(n)};
}

inline std::string idx(std::uint32_t magic, const std::vector<std::uint32_t>& dims,
                       const std::string& body) {
  std::string file = number(magic);
  for (std::uint32_t extent : dims) file += number(extent);
  return file + body;
}

// Images of 2 x 3 bytes, counting on, with labels 0, 1, 2, 0, …
inline void write_idx_set(const std::filesystem::path& folder, std::uint32_t train = 6,
                          std::uint32_t test = 3) {
  const auto write = [&](const std::string& stem, std::uint32_t samples) {
    std::string pixels, labels;
    for (std::uint32_t i = 0; i < samples * 6; ++i) pixels += static_cast<char>(i);
    for (std::uint32_t i = 0; i < samples; ++i) labels += static_cast<char>(i % 3);
    write_file(folder / (stem + "-images-idx3-ubyte"), idx(0x803, {samples, 2, 3}, pixels));
    write_file(folder / (stem + "-labels-idx1-ubyte"), idx(0x801, {samples}, labels));
  };
  write("train", train);
  write("t10k", test);
}

}  // namespace lockstep::testing
