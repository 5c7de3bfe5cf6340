#include "data/open.h"

#include <algorithm>

#include "core/error.h"
#include "core/names.h"
#include "core/whole_file.h"
#include "data/idx.h"
#include "data/picture.h"

namespace lockstep {
namespace {

constexpr DatasetRow kRows[] = {
#define DATASET(function, name, description, keys) {name, description, keys, open_##function},
#include "data/datasets.def"
#undef DATASET
};

// What lies in a folder.
std::string_view kind_of(const std::filesystem::path& folder) {
  if (find_idx(folder)) return "idx";
  if (exists(folder / "data_batch_1.bin")) return "cifar10";
  if (exists(folder / "x.npy")) return "arrays";
  if (has_pictures(folder)) return "images";
  throw UsageError(fmt::format(
      "{} holds no data known here: looked for IDX files (train-images-idx3-ubyte), CIFAR-10 "
      "(data_batch_1.bin), arrays (x.npy) and pictures (train/CLASS/*.jpg or CLASS/*.jpg)",
      folder.string()));
}

// NAME:DIR,key=value as NAME:dir=DIR,key=value; NAME:FILE likewise where it is a file.
std::string with_path_key(std::string_view spec, const DatasetRow& row) {
  const std::string_view name = row.name;
  if (name.size() == spec.size()) return std::string(spec);
  const std::string_view rest = spec.substr(name.size() + 1);
  if (rest.substr(0, rest.find(',')).find('=') != std::string_view::npos) return std::string(spec);
  return fmt::format("{}:{}={}", name, row.keys.starts_with("file=") ? "file" : "dir", rest);
}

std::string resolved(std::string_view spec) {
  const std::string_view name = Options::name_in(spec);
  if (const auto* row = std::ranges::find(kRows, name, &DatasetRow::name); row != std::end(kRows))
    return with_path_key(spec, *row);
  if (is_directory(std::filesystem::path(name))) {
    const std::string_view rest = spec.substr(name.size());
    return fmt::format("{}:dir={}{}{}", kind_of(name), name, rest.empty() ? "" : ",",
                       rest.substr(std::min<std::size_t>(1, rest.size())));
  }
  if (name.find_first_of("/.") != std::string_view::npos)
    throw UsageError(fmt::format("--data {}: there is no such folder", name));
  return std::string(spec);  // an unknown name
}

void add_to(Sha256& sum, const Dataset& set) {
  constexpr std::size_t kMostNumbers = 1 << 26, kMostSlow = 64;
  const std::size_t numbers = std::max<std::size_t>(1, set.values());
  const std::size_t most = set.slow() ? kMostSlow : std::max(kMostSlow, kMostNumbers / numbers);
  sum.add({set.shape().data(), set.shape().size() * sizeof set.shape()[0]});
  sum.add({set.labels().data(), set.labels().size_bytes()});
  std::vector<float> sample(numbers);
  const bool many = !set.label_shape().empty();
  std::vector<std::int64_t> labels(many ? values_in(set.label_shape()) : 0);
  const std::size_t taken = std::min(most, set.size());
  for (std::size_t i = 0; i < taken; ++i) {
    const auto index = static_cast<std::uint32_t>(i * set.size() / taken);
    set.read({&index, 1}, 0, sample.data());
    sum.add({sample.data(), sample.size() * sizeof sample[0]});
    if (many) set.read_labels({&index, 1}, 0, labels.data());
    sum.add({labels.data(), labels.size() * sizeof labels[0]});
  }
}

}  // namespace

std::span<const DatasetRow> datasets() { return kRows; }

Data open_data(std::string_view spec, const OpenRequest& request) {
  const std::string text = resolved(spec);
  const DatasetRow& row = row_named("data set", Options::name_in(text), kRows);
  Data data = row.open(Options(text, keys_in(row.keys)), request);
  if (data.spec.empty()) data.spec = text;
  if (request.limit > 0) data.train->keep_first(request.limit);
  if (request.test_limit > 0) data.test->keep_first(request.test_limit);
  if (data.test->shape() != data.train->shape())
    throw UsageError(fmt::format("{}: test samples are of shape {}, those to train on {}", spec,
                                 fmt::join(data.test->shape(), " x "),
                                 fmt::join(data.train->shape(), " x ")));
  if (data.test->classes() > data.train->classes())
    throw UsageError(fmt::format("{}: the test samples have {} classes, those to train on {}", spec,
                                 data.test->classes(), data.train->classes()));
  return data;
}

std::string content_of(const Data& data) {
  Sha256 sum;
  add_to(sum, *data.train);
  add_to(sum, *data.test);
  return sum.text();
}

std::string content_of_model(const std::string& model) {
  return std::filesystem::is_regular_file(model) ? checksum_of_file(model).sha256 : "";
}

}  // namespace lockstep
