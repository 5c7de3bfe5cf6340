#include "data/idx.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "data/open.h"

namespace lockstep {
namespace {

using std::filesystem::path;

std::uint32_t number_at(std::span<const std::byte> bytes, std::size_t at) {
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < 4; ++i)
    number = number << 8 | std::to_integer<std::uint32_t>(bytes[at + i]);
  return number;
}

std::optional<Element> element_of(std::uint32_t code) {
  constexpr std::pair<std::uint32_t, Element> kTypes[] = {
      {0x08, Element::u8},  {0x09, Element::i8},  {0x0b, Element::i16},
      {0x0c, Element::i32}, {0x0d, Element::f32}, {0x0e, Element::f64}};
  for (const auto& [known, element] : kTypes)
    if (known == code) return element;
  return {};
}

path find(const path& folder, std::initializer_list<const char*> stems, const char* ending) {
  for (const char* stem : stems)
    for (const char* join : {"-", "."})
      if (path file = folder / (std::string(stem) + join + ending); exists(file)) return file;
  return {};
}

std::unique_ptr<Dataset> images_with_labels(const path& images, const path& labels,
                                            const Options& options, Normal usual) {
  const auto pixels = std::make_shared<FileBytes>(images);
  const RawArray array = parse_idx(pixels->bytes(), images.string());
  const FileBytes label_file(labels);
  Facts facts{{array.dims.begin() + 1, array.dims.end()},
              labels_in(parse_idx(label_file.bytes(), labels.string()), labels.string()),
              0};
  if (facts.labels.size() != array.count())
    throw UsageError(fmt::format("{} holds {} samples, {} {} labels", images.string(),
                                 array.count(), labels.string(), facts.labels.size()));
  facts.classes = *std::ranges::max_element(facts.labels) + 1;
  if (facts.shape.size() == 2) facts.shape.insert(facts.shape.begin(), 1);  // one channel
  if (array.element != Element::u8) usual.unit = 1;
  const Normal normal =
      normal_from(options, std::move(usual), facts.shape.empty() ? 1 : facts.shape[0]);
  Rows rows = rows_of(array, 0, array.count(), pixels);
  return std::make_unique<ArrayDataset>(std::move(facts), std::move(rows), normal);
}

}  // namespace

RawArray parse_idx(std::span<const std::byte> bytes, const std::string& where) {
  if (bytes.size() < 4) throw UsageError(where + " is too short for an IDX file");
  const std::uint32_t magic = number_at(bytes, 0);
  const auto element = element_of(magic >> 8);  // its upper half must be zero
  const std::size_t dims = magic & 0xff;
  if (!element || dims == 0 || dims > 8)
    throw UsageError(fmt::format("{} is not an IDX file: it starts with {:#010x}", where, magic));
  if (bytes.size() < 4 + 4 * dims) throw UsageError(where + " ends inside its IDX header");
  RawArray array{*element, true, {}, bytes.subspan(4 + 4 * dims)};
  for (std::size_t d = 0; d < dims; ++d) array.dims.push_back(number_at(bytes, 4 + 4 * d));
  return checked(std::move(array), where);
}

std::optional<IdxFiles> find_idx(const path& folder) {
  const std::array<path, 4> files{
      find(folder, {"train-images"}, "idx3-ubyte"),
      find(folder, {"train-labels"}, "idx1-ubyte"),
      find(folder, {"t10k-images", "test-images"}, "idx3-ubyte"),
      find(folder, {"t10k-labels", "test-labels"}, "idx1-ubyte"),
  };
  constexpr std::array kNames{"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                              "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
  if (files[0].empty()) return {};
  for (std::size_t f = 0; f < files.size(); ++f)
    if (files[f].empty())
      throw UsageError(fmt::format("{} holds {} but no {}", folder.string(),
                                   files[0].filename().string(), kNames[f]));
  return IdxFiles{files[0], files[1], files[2], files[3]};
}

Data open_idx_folder(const path& folder, const Options& options, const Normal& usual) {
  const auto files = find_idx(folder);
  if (!files) throw UsageError(fmt::format("{} holds no train-images-idx3-ubyte", folder.string()));
  Data data;
  data.train = images_with_labels(files->train_images, files->train_labels, options, usual);
  data.test = images_with_labels(files->test_images, files->test_labels, options, usual);
  return data;
}

Data open_idx(const Options& options, const OpenRequest&) {
  const path folder = options.text("dir");
  Data data = open_idx_folder(folder, options, {255, {.1307f}, {.3081f}});
  data.name = "idx:" + folder.string();
  return data;
}

}  // namespace lockstep
