// IDX files, the format of MNIST: a magic number that tells type and dimensions, the extents, then
// the numbers, big end first.
#pragma once

#include <filesystem>
#include <optional>

#include "data/array_dataset.h"

namespace lockstep {

// Four files: images and labels, to train and to test.
struct IdxFiles {
  std::filesystem::path train_images, train_labels, test_images, test_labels;
};
// By their usual names ("train-images-idx3-ubyte", "train-images.idx3-ubyte", "t10k-…" or
// "test-…"); none if there are no train images. UsageError: some of the four are there and others
// not.
std::optional<IdxFiles> find_idx(const std::filesystem::path& folder);

// The sets in those files, without name and spec. Bytes are divided by usual.unit, other numbers
// are taken as they are; the keys `mean` and `deviation` win over the usual ones.
Data open_idx_folder(const std::filesystem::path& folder, const Options&, const Normal& usual);

}  // namespace lockstep
