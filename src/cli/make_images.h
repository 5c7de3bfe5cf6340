// An ImageNet-layout folder of generated JPEGs.
#pragma once

#include <cstdint>
#include <filesystem>

namespace lockstep {

struct ImagesToMake {
  int classes = 10, per_class = 100, val_per_class = 10;
  int width = 256, height = 256, quality = 90;
  std::uint64_t seed = 1;
};

// Under another name first, then renamed: `folder` is whole or not there. Returns the bytes
// written. UsageError: it exists and is not empty; bench::Interrupted once `interrupt` (or -1) is
// readable.
std::uint64_t make_images(const std::filesystem::path& folder, const ImagesToMake&, int interrupt);

}  // namespace lockstep
