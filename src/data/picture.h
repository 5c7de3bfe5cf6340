// Pictures: decoded from JPEG, cut and made numbers of, encoded. Through libjpeg-turbo: bytes
// nobody vouches for end in a DamagedJpeg, never in a crash, an exit or memory beyond what the
// picture's size allows for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "core/error.h"
#include "core/rng.h"
#include "data/array_dataset.h"

namespace lockstep {

struct Picture {
  int width = 0, height = 0;
  std::vector<std::uint8_t> rgb;  // row by row, three bytes a pixel
};

class DamagedJpeg : public Error {
 public:
  using Error::Error;
};

class JpegReader {
 public:
  // Reads the header. The bytes outlive the reader.
  explicit JpegReader(std::span<const std::byte> bytes);
  ~JpegReader();
  JpegReader(const JpegReader&) = delete;

  int width() const;
  int height() const;
  // The whole picture, each side divided by `shrink` (1, 2, 4 or 8; rounded up), which saves most
  // of the work. Once. A picture that ends early or holds nonsense is damaged.
  Picture decode(int shrink);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Quality 1 to 100.
std::vector<std::uint8_t> encode_jpeg(const Picture&, int quality);

// Which part of a picture is used.
struct Crop {
  double left = 0, top = 0, width = 0, height = 0;  // in pixels of the whole picture
  bool mirror = false;
};

// In training: a part of 8 to 100 % of the area, of 3:4 to 4:3, anywhere; every other one mirrored.
Crop random_crop(int width, int height, Rng&);
// In tests: the square in the middle, seven eighths of the short side (224 of 256).
Crop centre_crop(int width, int height);

// The most a picture may be shrunk while it is decoded, so that the crop still has `side` pixels.
int shrink_for(const Crop&, int side);
// Writes the crop as side x side numbers for red, then green, then blue, between pixels linearly.
// `picture` is the whole divided by `shrink`. REQUIRES: normal has one or three means and
// deviations.
void resample(const Picture& picture, int shrink, const Crop&, int side, const Normal& normal,
              float* x);

// A generated photograph of nothing (drawn_pictures.cpp). The same (seed, label, index) gives the
// same picture. REQUIRES: label >= 0.
Picture draw_picture(std::uint64_t seed, int label, std::uint32_t index, int width, int height);

// Does the folder look like one of images:DIR (images.cpp)?
bool has_pictures(const std::filesystem::path& folder);

}  // namespace lockstep
