// images:DIR, a folder of JPEGs: DIR/train/CLASS/*.jpg with DIR/val/CLASS/*.jpg, as ImageNet is
// laid out, or DIR/CLASS/*.jpg with a part of each class held out.
#pragma once

#include <filesystem>

namespace lockstep {

// Does it look like one?
bool has_pictures(const std::filesystem::path& folder);

}  // namespace lockstep
