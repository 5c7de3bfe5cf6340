// idx:DIR, and what every set of IDX files shares.
#include <algorithm>

#include "core/error.h"
#include "data/file_bytes.h"
#include "data/idx.h"
#include "data/open.h"

namespace lockstep {
namespace {

using std::filesystem::path;

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
