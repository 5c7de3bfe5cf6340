// JPEG pictures through libjpeg-turbo. Bytes nobody vouches for end in a DamagedJpeg, never in a
// crash, an exit or memory beyond what the picture's size allows for.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/error.h"

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

}  // namespace lockstep
