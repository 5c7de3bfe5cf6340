// MNIST proper: the four files and what they must sum up to.
#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <string_view>

namespace lockstep {

struct MnistFile {
  std::string_view name, md5;
};
inline constexpr std::array<MnistFile, 4> kMnistFiles{{
    {"train-images-idx3-ubyte", "6bbc9ace898e44ae57da46a324031adb"},
    {"train-labels-idx1-ubyte", "a25bea736e30d166cdddb491f175f624"},
    {"t10k-images-idx3-ubyte", "2646ac647ad5339dbf082846283269ea"},
    {"t10k-labels-idx1-ubyte", "27ae3e4e09519cfbb04c329615203637"},
}};

// As 32 hexadecimal digits. UsageError if the file can't be read.
std::string md5_of(const std::filesystem::path&);

// Are all four there?
bool has_mnist(const std::filesystem::path& folder);
// UsageError: a file is missing, or its MD5 is not MNIST's.
void verify_mnist(const std::filesystem::path& folder);

}  // namespace lockstep
