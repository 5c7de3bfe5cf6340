// arrays:DIR: x.npy and y.npy of any shape (audio, volumes, features), with x_test.npy and
// y_test.npy or a part at the end held out to test with.
#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "data/array_dataset.h"
#include "data/file_bytes.h"
#include "data/npy.h"
#include "data/open.h"

namespace lockstep {
namespace {

using std::filesystem::path;

struct Pair {
  std::shared_ptr<const FileBytes> file;
  RawArray x;
  std::vector<int> y;
};

Pair read_pair(const path& x_file, const path& y_file) {
  Pair pair;
  pair.file = std::make_shared<FileBytes>(x_file);
  pair.x = parse_npy(pair.file->bytes(), x_file.string());
  const FileBytes labels(y_file);
  pair.y = labels_in(parse_npy(labels.bytes(), y_file.string()), y_file.string());
  if (pair.y.size() != pair.x.count())
    throw UsageError(fmt::format("{} holds {} samples, {} {} labels", x_file.string(),
                                 pair.x.count(), y_file.string(), pair.y.size()));
  return pair;
}

std::unique_ptr<Dataset> part(const Pair& pair, std::size_t first, std::size_t count, int classes,
                              const Options& options) {
  Facts facts{{pair.x.dims.begin() + 1, pair.x.dims.end()},
              {pair.y.begin() + static_cast<std::ptrdiff_t>(first),
               pair.y.begin() + static_cast<std::ptrdiff_t>(first + count)},
              classes};
  if (facts.shape.empty()) facts.shape = {1};
  const Normal normal = normal_from(options, {}, facts.shape[0]);
  return std::make_unique<ArrayDataset>(std::move(facts), rows_of(pair.x, first, count, pair.file),
                                        normal);
}

std::size_t held_out(const Options& options, std::size_t samples) {
  const double share = options.number("test", .1);
  if (!(share > 0 && share < 1))
    throw UsageError("test of 'arrays' is the share of samples held out, such as 0.1");
  const double count = std::round(share * static_cast<double>(samples));
  if (samples < 2) throw UsageError("'arrays' needs x_test.npy, or 2 samples to hold one out");
  return std::clamp<std::size_t>(static_cast<std::size_t>(count), 1, samples - 1);
}

}  // namespace

Data open_arrays(const Options& options, const OpenRequest&) {
  const path folder = options.text("dir");
  const Pair train = read_pair(folder / "x.npy", folder / "y.npy");
  const int classes = *std::ranges::max_element(train.y) + 1;
  Data data;
  data.name = "arrays:" + folder.string();
  if (!exists(folder / "x_test.npy")) {
    const std::size_t test = held_out(options, train.y.size()), rest = train.y.size() - test;
    data.train = part(train, 0, rest, classes, options);
    data.test = part(train, rest, test, classes, options);
    return data;
  }
  if (options.has("test"))
    throw UsageError(fmt::format("{} holds x_test.npy: leave out test=", folder.string()));
  const Pair test = read_pair(folder / "x_test.npy", folder / "y_test.npy");
  data.train = part(train, 0, train.y.size(), classes, options);
  data.test = part(test, 0, test.y.size(), std::max(classes, *std::ranges::max_element(test.y) + 1),
                   options);
  return data;
}

}  // namespace lockstep
