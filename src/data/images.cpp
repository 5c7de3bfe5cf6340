// images:DIR, a folder of JPEGs: DIR/train/CLASS/*.jpg with DIR/val/CLASS/*.jpg, as ImageNet is
// laid out, or DIR/CLASS/*.jpg with a part of each class held out.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/whole_file.h"
#include "data/open.h"
#include "data/picture.h"

namespace lockstep {
namespace {

using std::filesystem::directory_entry;
using std::filesystem::directory_iterator;
using std::filesystem::path;

// Classes are numbered by name. Samples come in turns, the first of each class, then the second: so
// the first N of them are of all classes.
struct PictureFiles {
  std::vector<path> files;
  std::vector<int> labels;
};

struct PictureFolder {
  std::vector<std::string> classes;
  PictureFiles train, test;
  std::size_t others = 0;  // entries that are no JPEGs by name, or no files; passed over
};

using ByClass = std::map<std::string, std::vector<path>>;  // sorted

// False too where that can't be told, as of a link to nowhere.
bool is_folder(const directory_entry& entry) {
  std::error_code ignored;
  return entry.is_directory(ignored);
}

// A name alone does not make a picture: a folder can be called so, or a FIFO, which would wait.
bool is_jpeg(const directory_entry& file) {
  std::error_code ignored;
  if (!file.is_regular_file(ignored)) return false;
  std::string ending = file.path().extension().string();
  std::ranges::transform(ending, ending.begin(), [](unsigned char c) { return std::tolower(c); });
  return ending == ".jpg" || ending == ".jpeg";
}

ByClass list_classes(const path& folder, std::size_t& others) {
  ByClass found;
  for (const auto& entry : directory_iterator(folder)) {
    if (!is_folder(entry)) continue;
    std::vector<path> files;
    for (const auto& file : directory_iterator(entry.path()))
      if (is_jpeg(file))
        files.push_back(file.path());
      else
        ++others;
    std::ranges::sort(files);
    if (!files.empty()) found[entry.path().filename().string()] = std::move(files);
  }
  if (found.empty())
    throw UsageError(
        fmt::format("{} holds no pictures: CLASS/NAME.jpg is the layout", folder.string()));
  return found;
}

PictureFiles in_turns(const ByClass& by_class, const std::vector<std::string>& classes) {
  PictureFiles all;
  for (std::size_t turn = 0, before = ~std::size_t{0}; before != all.files.size(); ++turn) {
    before = all.files.size();
    for (std::size_t c = 0; c < classes.size(); ++c) {
      const auto found = by_class.find(classes[c]);
      if (found == by_class.end() || turn >= found->second.size()) continue;
      all.files.push_back(found->second[turn]);
      all.labels.push_back(static_cast<int>(c));
    }
  }
  return all;
}

// The last ones of each class; at least one, and never all.
ByClass hold_out(ByClass& train, double share) {
  ByClass test;
  for (auto& [name, files] : train) {
    if (files.size() < 2)
      throw UsageError(
          fmt::format("class {} has one picture: two are needed to test with one", name));
    const auto wanted = static_cast<std::size_t>(std::round(share * double(files.size())));
    const std::size_t count = std::clamp<std::size_t>(wanted, 1, files.size() - 1);
    test[name].assign(files.end() - static_cast<std::ptrdiff_t>(count), files.end());
    files.resize(files.size() - count);
  }
  return test;
}

// `held_out`: share of each class to test with where there is no val/ (or test/). UsageError: no
// classes, no pictures, or a class of val/ that train/ does not have.
PictureFolder list_pictures(const path& folder, double held_out) {
  if (!is_directory(folder)) throw UsageError(folder.string() + " is not a folder");
  PictureFolder found;
  const bool parted = is_directory(folder / "train");
  ByClass train = list_classes(parted ? folder / "train" : folder, found.others);
  const path val = is_directory(folder / "val") ? folder / "val" : folder / "test";
  const bool has_val = parted && is_directory(val);
  const ByClass test = has_val ? list_classes(val, found.others) : hold_out(train, held_out);
  for (const auto& [name, files] : train) found.classes.push_back(name);
  for (const auto& [name, files] : test)
    if (!train.contains(name))
      throw UsageError(fmt::format("{} is a class that {} does not have", (val / name).string(),
                                   (folder / "train").string()));
  found.train = in_turns(train, found.classes);
  found.test = in_turns(test, found.classes);
  return found;
}

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

// Pictures are decoded when they are read, at the smallest scale that still fills the crop. One
// that can't be decoded is replaced by the next good one of its class, so that labels and counts
// stay true, and is named in damaged().
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
  std::vector<std::string> damaged() const override {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> all;
    for (const auto& [sample, what] : damaged_) all.push_back(what);
    return all;
  }

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
      const std::lock_guard lock(mutex_);
      damaged_.try_emplace(sample,
                           fmt::format("{}: {}", pictures_.files[sample].string(), damage.what()));
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
  mutable std::mutex mutex_;                            // any thread may find a damaged file
  mutable std::map<std::size_t, std::string> damaged_;  // by sample, why
};

}  // namespace

bool has_pictures(const path& folder) {
  if (is_directory(folder / "train")) return true;
  for (const auto& entry : directory_iterator(folder))
    if (is_folder(entry))
      for (const auto& file : directory_iterator(entry.path()))
        if (is_jpeg(file)) return true;
  return false;
}

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
