#include "data/picture.h"

#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
// <jpeglib.h> wants <cstdio> before it.
#include <jpeglib.h>
// After <jpeglib.h>, whose types it uses.
#include <jerror.h>

namespace lockstep {
namespace {

constexpr double kMostPixels = 1e8;

// libjpeg calls back on errors and must not get back control: we jump out of it. So nothing with a
// destructor may live between guarded() and libjpeg.
struct Errors {
  jpeg_error_mgr manager;  // first: libjpeg hands out a pointer to it
  std::jmp_buf escape;
  char text[JMSG_LENGTH_MAX] = "";
};

[[noreturn]] void on_error(j_common_ptr info) {
  auto* errors = reinterpret_cast<Errors*>(info->err);
  errors->manager.format_message(info, errors->text);
  std::longjmp(errors->escape, 1);
}

// Most warnings are harmless (bytes between markers, odd density); these mean that pixels are made
// up.
void on_message(j_common_ptr info, int level) {
  const int code = info->err->msg_code;
  if (level < 0 && (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE))
    on_error(info);
}

jpeg_error_mgr* install(Errors& errors) {
  jpeg_std_error(&errors.manager);
  errors.manager.error_exit = on_error;
  errors.manager.emit_message = on_message;
  return &errors.manager;
}

// False: libjpeg gave up, and errors.text says why.
template <class Info>
bool guarded(Errors& errors, Info& info, void (*work)(Info&)) {
  if (setjmp(errors.escape)) return false;
  work(info);
  return true;
}

void read_header(jpeg_decompress_struct& info) {
  const auto* bytes = static_cast<const std::span<const std::byte>*>(info.client_data);
  jpeg_create_decompress(&info);
  info.mem->max_memory_to_use = 1l << 30;
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(bytes->data()),
               static_cast<unsigned long>(bytes->size()));
  jpeg_read_header(&info, TRUE);
}

void start_reading(jpeg_decompress_struct& info) { jpeg_start_decompress(&info); }

void read_lines(jpeg_decompress_struct& info) {
  auto* next = static_cast<JSAMPLE*>(info.client_data);
  const std::size_t stride = std::size_t{info.output_width} * info.output_components;
  while (info.output_scanline < info.output_height)
    next += stride * jpeg_read_scanlines(&info, &next, 1);
  jpeg_finish_decompress(&info);
}

// Adobe stores CMYK inverted, and that is the CMYK there is.
std::vector<std::uint8_t> rgb_from_cmyk(const std::vector<std::uint8_t>& cmyk) {
  std::vector<std::uint8_t> rgb;
  rgb.reserve(cmyk.size() / 4 * 3);
  for (std::size_t i = 0; i < cmyk.size(); i += 4)
    for (std::size_t c = 0; c < 3; ++c)
      rgb.push_back(static_cast<std::uint8_t>(cmyk[i + c] * cmyk[i + 3] / 255));
  return rgb;
}

struct EncodeJob {
  const Picture& picture;
  int quality;
  unsigned char* bytes = nullptr;  // malloc'd by libjpeg
  unsigned long size = 0;
};

void write_picture(jpeg_compress_struct& info) {
  auto* job = static_cast<EncodeJob*>(info.client_data);
  jpeg_create_compress(&info);
  jpeg_mem_dest(&info, &job->bytes, &job->size);
  info.image_width = static_cast<unsigned>(job->picture.width);
  info.image_height = static_cast<unsigned>(job->picture.height);
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, job->quality, TRUE);
  jpeg_start_compress(&info, TRUE);
  auto* next = const_cast<JSAMPLE*>(job->picture.rgb.data());
  while (info.next_scanline < info.image_height)
    next += std::size_t{info.image_width} * 3 * jpeg_write_scanlines(&info, &next, 1);
  jpeg_finish_compress(&info);
}

// Two neighbouring pixels and how much the second counts.
struct Between {
  int first, second;
  float weight;
};

std::vector<Between> places(double begin, double length, int side, int extent, bool mirror) {
  std::vector<Between> places(side);
  for (int i = 0; i < side; ++i) {
    const double at = std::clamp(begin + (i + .5) * length / side - .5, 0., extent - 1.);
    const int first = static_cast<int>(at);
    places[mirror ? side - 1 - i : i] = {first, std::min(first + 1, extent - 1),
                                         static_cast<float>(at - first)};
  }
  return places;
}

}  // namespace

struct JpegReader::State {
  jpeg_decompress_struct info{};
  Errors errors{};
};

JpegReader::JpegReader(std::span<const std::byte> bytes) : state_(std::make_unique<State>()) {
  jpeg_decompress_struct& info = state_->info;
  info.err = install(state_->errors);
  info.client_data = &bytes;
  const bool read = guarded(state_->errors, info, read_header);
  const bool fits = double{1} * info.image_width * info.image_height <= kMostPixels;
  if (read && fits) return;
  jpeg_destroy_decompress(&info);
  if (!read) throw DamagedJpeg(state_->errors.text);
  throw DamagedJpeg(
      fmt::format("{} x {} pixels are too many", info.image_width, info.image_height));
}

JpegReader::~JpegReader() { jpeg_destroy_decompress(&state_->info); }

int JpegReader::width() const { return static_cast<int>(state_->info.image_width); }
int JpegReader::height() const { return static_cast<int>(state_->info.image_height); }

Picture JpegReader::decode(int shrink) {
  jpeg_decompress_struct& info = state_->info;
  const bool cmyk = info.num_components == 4;
  info.scale_num = 1;
  info.scale_denom = static_cast<unsigned>(shrink);
  info.out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
  info.dct_method = JDCT_ISLOW;  // as fast as the others where there is SIMD, and exact
  if (!guarded(state_->errors, info, start_reading)) throw DamagedJpeg(state_->errors.text);
  Picture picture{static_cast<int>(info.output_width), static_cast<int>(info.output_height), {}};
  picture.rgb.resize(std::size_t{info.output_width} * info.output_height * info.output_components);
  info.client_data = picture.rgb.data();
  if (!guarded(state_->errors, info, read_lines)) throw DamagedJpeg(state_->errors.text);
  if (cmyk) picture.rgb = rgb_from_cmyk(picture.rgb);
  return picture;
}

std::vector<std::uint8_t> encode_jpeg(const Picture& picture, int quality) {
  EncodeJob job{picture, quality};
  jpeg_compress_struct info{};
  Errors errors{};
  info.err = install(errors);
  info.client_data = &job;
  const bool done = guarded(errors, info, write_picture);
  std::vector<std::uint8_t> encoded(job.bytes, job.bytes + (done ? job.size : 0));
  jpeg_destroy_compress(&info);
  std::free(job.bytes);
  if (!done) throw InternalError(fmt::format("libjpeg can't encode a picture: {}", errors.text));
  return encoded;
}

Crop random_crop(int width, int height, Rng& rng) {
  const bool mirror = rng.below(2) == 1;
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double area = (.08 + .92 * rng.uniform()) * width * height;
    const double ratio = std::exp(std::log(4. / 3) * (2 * rng.uniform() - 1));
    const double w = std::sqrt(area * ratio), h = std::sqrt(area / ratio);
    if (w > width || h > height) continue;
    return {rng.uniform() * (width - w), rng.uniform() * (height - h), w, h, mirror};
  }
  Crop crop = centre_crop(width, height);
  crop.mirror = mirror;
  return crop;
}

Crop centre_crop(int width, int height) {
  const double side = std::min(width, height) * 7 / 8.;
  return {(width - side) / 2, (height - side) / 2, side, side, false};
}

int shrink_for(const Crop& crop, int side) {
  int shrink = 8;
  while (shrink > 1 && std::min(crop.width, crop.height) < double{1} * side * shrink) shrink /= 2;
  return shrink;
}

void resample(const Picture& picture, int shrink, const Crop& crop, int side, const Normal& normal,
              float* x) {
  const auto columns =
      places(crop.left / shrink, crop.width / shrink, side, picture.width, crop.mirror);
  const auto rows = places(crop.top / shrink, crop.height / shrink, side, picture.height, false);
  float scale[3], shift[3];
  for (int c = 0; c < 3; ++c) {
    scale[c] = 1 / (normal.unit * normal.deviation_of(c));
    shift[c] = -normal.mean_of(c) / normal.deviation_of(c);
  }
  const std::size_t plane = std::size_t(side) * side;
  for (int i = 0; i < side; ++i) {
    const auto row_at = [&](int y) { return &picture.rgb[std::size_t(y) * picture.width * 3]; };
    const std::uint8_t *above = row_at(rows[i].first), *below = row_at(rows[i].second);
    for (int j = 0; j < side; ++j, ++x) {
      const Between& column = columns[j];
      for (int c = 0; c < 3; ++c) {
        const int left = column.first * 3 + c, right = column.second * 3 + c;
        const float up = above[left] + column.weight * (above[right] - above[left]);
        const float down = below[left] + column.weight * (below[right] - below[left]);
        x[c * plane] = (up + rows[i].weight * (down - up)) * scale[c] + shift[c];
      }
    }
  }
}

}  // namespace lockstep
