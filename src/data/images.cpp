// images:DIR: a folder of JPEGs. Pictures are decoded when they are read, at the smallest scale
// that still fills the crop. One that can't be decoded is replaced by the next good one of its
// class, so that labels and counts stay true, and is named in damaged().
#include <unistd.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/whole_file.h"
#include "data/open.h"
#include "data/picture_crop.h"
#include "data/picture_folder.h"

namespace lockstep {
namespace {

// Samples found damaged while reading, by whichever thread found them.
class DamageLog {
 public:
  void note(std::size_t sample, std::string what) {
    const std::lock_guard lock(mutex_);
    found_.try_emplace(sample, std::move(what));
  }
  // Each sample once, ascending.
  std::vector<std::string> all() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> all;
    for (const auto& [sample, what] : found_) all.push_back(what);
    return all;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::size_t, std::string> found_;
};

using std::filesystem::path;

// Copied, not mapped: these files are small, and people do tidy up their folders.
std::vector<std::byte> content_of(const path& file) {
  constexpr std::uint64_t kMost = 1 << 30;
  const OpenedFile opened = open_to_read(file.string());
  if (opened.descriptor < 0) throw DamagedJpeg("it can't be opened: " + opened.why_not);
  std::vector<std::byte> bytes(opened.bytes > kMost ? 0 : opened.bytes);
  std::size_t done = 0;
  ssize_t got = 0;
  while (done < bytes.size() &&
         (got = ::read(opened.descriptor, bytes.data() + done, bytes.size() - done)) > 0)
    done += static_cast<std::size_t>(got);
  close(opened.descriptor);
  if (opened.bytes > kMost) throw DamagedJpeg(fmt::format("{} bytes are too many", opened.bytes));
  if (done < bytes.size()) throw DamagedJpeg("it can't be read");
  return bytes;
}

class Images final : public Dataset {
 public:
  Images(PictureFiles pictures, int classes, int side, Normal normal, bool augment)
      : Dataset({{3, side, side}, pictures.labels, classes}),
        pictures_(std::move(pictures)),
        side_(side),
        normal_(std::move(normal)),
        augment_(augment) {}

  void read(std::span<const std::uint32_t> indices, std::uint64_t variation,
            float* x) const override {
    for (std::uint32_t index : indices) {
      std::size_t sample = index;
      while (!try_read(sample, index, variation, x)) sample = next_of_class(sample, index);
      x += values();
    }
  }
  bool slow() const override { return true; }
  std::vector<std::string> damaged() const override { return damage_.all(); }

 private:
  // `index` is the sample asked for, which the random crop belongs to.
  bool try_read(std::size_t sample, std::uint32_t index, std::uint64_t variation, float* x) const {
    try {
      const std::vector<std::byte> bytes = content_of(pictures_.files[sample]);
      JpegReader jpeg(bytes);
      Rng rng(variation, static_cast<int>(index), purpose_of("crop"));
      const Crop crop = augment_ ? random_crop(jpeg.width(), jpeg.height(), rng)
                                 : centre_crop(jpeg.width(), jpeg.height());
      const int shrink = shrink_for(crop, side_);
      resample(jpeg.decode(shrink), shrink, crop, side_, normal_, x);
      return true;
    } catch (const DamagedJpeg& damage) {
      damage_.note(sample, fmt::format("{}: {}", pictures_.files[sample].string(), damage.what()));
      return false;
    }
  }

  std::size_t next_of_class(std::size_t sample, std::uint32_t asked_for) const {
    const int label = pictures_.labels[asked_for];
    do sample = (sample + 1) % pictures_.files.size();
    while (pictures_.labels[sample] != label);
    if (sample != asked_for) return sample;
    throw UsageError(fmt::format("no picture in {} can be decoded",
                                 pictures_.files[asked_for].parent_path().string()));
  }

  const PictureFiles pictures_;
  const int side_;
  const Normal normal_;
  const bool augment_;
  mutable DamageLog damage_;
};

}  // namespace

Data open_images(const Options& options, const OpenRequest&) {
  const path folder = options.text("dir");
  const std::int64_t side = options.integer("size", 224);
  if (side < 1 || side > 4096)
    throw UsageError(fmt::format("size of 'images' must be from 1 to 4096 pixels, not {}", side));
  const double held_out = options.number("test", .1);
  if (!(held_out > 0 && held_out < 1))
    throw UsageError("test of 'images' is the share of each class held out, such as 0.1");
  PictureFolder found = list_pictures(folder, held_out);
  const Normal normal =
      normal_from(options, {255, {.485f, .456f, .406f}, {.229f, .224f, .225f}}, 3);
  const auto make = [&](PictureFiles files, bool augment) {
    return std::make_unique<Images>(std::move(files), static_cast<int>(found.classes.size()),
                                    static_cast<int>(side), normal, augment);
  };
  Data data;
  data.name = "images:" + folder.string();
  data.train = make(std::move(found.train), options.flag("augment", true));
  data.test = make(std::move(found.test), false);
  if (found.others > 0)
    data.notices.push_back(
        fmt::format("{}: {} entries that are not files named .jpg or .jpeg are passed over",
                    folder.string(), found.others));
  return data;
}

}  // namespace lockstep
