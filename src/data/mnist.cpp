#include "data/mnist.h"

#include <openssl/evp.h>

#include <algorithm>

#include "core/error.h"
#include "data/array_dataset.h"
#include "data/file_bytes.h"
#include "data/idx.h"
#include "data/open.h"

namespace lockstep {
namespace {

using std::filesystem::path;

std::unique_ptr<Dataset> images_with_labels(const path& images, const path& labels,
                                            const Options& options) {
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
  const float unit = array.element == Element::u8 ? 255 : 1;
  const Normal normal =
      normal_from(options, {unit, {.1307f}, {.3081f}}, facts.shape.empty() ? 1 : facts.shape[0]);
  Rows rows = rows_of(array, 0, array.count(), pixels);
  return std::make_unique<ArrayDataset>(std::move(facts), std::move(rows), normal);
}

Data open_files(std::string name, const IdxFiles& files, const Options& options) {
  Data data;
  data.name = std::move(name);
  data.train = images_with_labels(files.train_images, files.train_labels, options);
  data.test = images_with_labels(files.test_images, files.test_labels, options);
  return data;
}

// Empty: it has been fetched.
std::string reason_not_fetched(const path& folder, const OpenRequest& request) {
  if (!request.fetch_mnist) return "nothing here may fetch it";
  try {
    request.fetch_mnist(folder);
    return has_mnist(folder) ? "" : "it was fetched, but not there";
  } catch (const InternalError& error) {
    return error.what();
  } catch (const UsageError& error) {
    return error.what();
  }
}

}  // namespace

std::string md5_of(const path& file) {
  const FileBytes content(file);
  std::array<unsigned char, 16> digest{};
  if (EVP_Digest(content.bytes().data(), content.bytes().size(), digest.data(), nullptr, EVP_md5(),
                 nullptr) != 1)
    throw InternalError("OpenSSL refuses to compute an MD5");
  return fmt::format("{:02x}", fmt::join(digest, ""));
}

bool has_mnist(const path& folder) {
  return std::ranges::all_of(kMnistFiles,
                             [&](const MnistFile& file) { return exists(folder / file.name); });
}

void verify_mnist(const path& folder) {
  for (const MnistFile& file : kMnistFiles)
    if (const std::string md5 = md5_of(folder / file.name); md5 != file.md5)
      throw UsageError(
          fmt::format("{} is not MNIST's: its MD5 is {}, not {}; remove it, or use "
                      "what is there with --data {}",
                      (folder / file.name).string(), md5, file.md5, folder.string()));
}

Data open_mnist(const Options& options, const OpenRequest& request) {
  const path folder = options.text("dir", (request.cache / "mnist").string());
  const std::string why = has_mnist(folder) ? "" : reason_not_fetched(folder, request);
  if (has_mnist(folder)) {
    verify_mnist(folder);
    Data data = open_files("mnist", *find_idx(folder), options);
    data.spec = fmt::format("mnist:dir={}", absolute(folder).string());
    for (const char* key : {"mean", "deviation"})
      if (options.has(key)) data.spec += fmt::format(",{}={}", key, options.text(key));
    return data;
  }
  if (options.has("dir"))
    throw UsageError(fmt::format("MNIST is not in {} and can't be had: {}", folder.string(), why));
  Data data = open_data("digits", request);
  data.notices.push_back(fmt::format("MNIST is not in {} ({}): generated digits stand in for it",
                                     folder.string(), why));
  return data;
}

Data open_idx(const Options& options, const OpenRequest&) {
  const path folder = options.text("dir");
  const auto files = find_idx(folder);
  if (!files) throw UsageError(fmt::format("{} holds no train-images-idx3-ubyte", folder.string()));
  return open_files("idx:" + folder.string(), *files, options);
}

}  // namespace lockstep
