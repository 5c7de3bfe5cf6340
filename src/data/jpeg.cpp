#include "data/jpeg.h"

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

namespace {

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

}  // namespace

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

}  // namespace lockstep
