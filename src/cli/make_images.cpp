#include "cli/make_images.h"

#include <poll.h>
#include <sys/stat.h>

#include <fstream>

#include "bench/pipes.h"
#include "core/error.h"
#include "data/drawn_pictures.h"

namespace lockstep {
namespace {

using std::filesystem::path;

void write_whole(const path& file, const std::vector<std::uint8_t>& bytes) {
  std::ofstream out(file, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
  out.close();
  if (!out) throw InternalError(fmt::format("can't write {}", file.string()));
}

void stop_if_asked(int interrupt) {
  pollfd event{interrupt, POLLIN, 0};
  if (poll(&event, 1, 0) == 1) throw bench::Interrupted();
}

}  // namespace

std::uint64_t make_images(const path& folder, const ImagesToMake& wanted, int interrupt) {
  if (exists(folder) && !(is_directory(folder) && is_empty(folder)))
    throw UsageError(
        fmt::format("{} exists: name a folder that does not, or an empty one", folder.string()));
  const path parent = absolute(folder / "").parent_path().parent_path();
  create_directories(parent);
  const bench::PrivateFolder temporary(parent.string());
  const path whole = path(temporary.path()) / "whole";
  std::uint64_t bytes = 0;
  // Validation pictures are further ones of the same kind.
  const auto make = [&](const char* part, int first, int count) {
    for (int label = 0; label < wanted.classes; ++label) {
      const path of_class = whole / part / fmt::format("class_{:04}", label);
      create_directories(of_class);
      for (int i = first; i < first + count; ++i) {
        stop_if_asked(interrupt);
        const Picture picture = draw_picture(wanted.seed, label, static_cast<std::uint32_t>(i),
                                             wanted.width, wanted.height);
        const auto jpeg = encode_jpeg(picture, wanted.quality);
        write_whole(of_class / fmt::format("{:06}.jpg", i), jpeg);
        bytes += jpeg.size();
      }
    }
  };
  make("train", 0, wanted.per_class);
  make("val", wanted.per_class, wanted.val_per_class);
  rename(whole, folder);  // an empty folder gives way
  return bytes;
}

}  // namespace lockstep
