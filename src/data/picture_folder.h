// Where the pictures of an image folder are: DIR/train/CLASS/*.jpg with DIR/val/CLASS/*.jpg, as
// ImageNet is laid out, or DIR/CLASS/*.jpg with a part of each class held out.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep {

// Classes are numbered by name. Samples come in turns, the first of each class, then the second: so
// the first N of them are of all classes.
struct PictureFiles {
  std::vector<std::filesystem::path> files;
  std::vector<int> labels;
};

struct PictureFolder {
  std::vector<std::string> classes;
  PictureFiles train, test;
  std::size_t others = 0;  // entries that are no JPEGs by name, or no files; passed over
};

// Does it look like one?
bool has_pictures(const std::filesystem::path& folder);
// `held_out`: share of each class to test with where there is no val/ (or test/). UsageError: no
// classes, no pictures, or a class of val/ that train/ does not have.
PictureFolder list_pictures(const std::filesystem::path& folder, double held_out);

}  // namespace lockstep
