// cifar10:DIR: the binary version of CIFAR-10, records of a class and 3 x 32 x 32 bytes.
#include "core/error.h"
#include "data/array_dataset.h"
#include "data/file_bytes.h"
#include "data/open.h"

namespace lockstep {
namespace {

constexpr std::size_t kPixels = 3 * 32 * 32, kRecord = 1 + kPixels;
constexpr int kClasses = 10, kMostShift = 4;

std::unique_ptr<Dataset> read_files(const std::vector<std::filesystem::path>& files,
                                    const Options& options, int crop) {
  Facts facts{{3, 32, 32}, {}, kClasses};
  Rows rows;
  for (const auto& path : files) {
    const auto file = std::make_shared<FileBytes>(path);
    const std::span<const std::byte> bytes = file->bytes();
    if (bytes.empty() || bytes.size() % kRecord != 0)
      throw UsageError(fmt::format("{} is {} bytes long, not a multiple of CIFAR-10's {}",
                                   path.string(), bytes.size(), kRecord));
    for (std::size_t at = 0; at < bytes.size(); at += kRecord) {
      const int label = std::to_integer<int>(bytes[at]);
      if (label >= kClasses)
        throw UsageError(fmt::format("{}: sample {} is of class {}, but CIFAR-10 has 10",
                                     path.string(), at / kRecord, label));
      facts.labels.push_back(label);
      rows.at.push_back(bytes.data() + at + 1);
    }
    rows.owners.push_back(file);
  }
  const Normal normal =
      normal_from(options, {255, {.4914f, .4822f, .4465f}, {.247f, .2435f, .2616f}}, 3);
  return std::make_unique<ArrayDataset>(std::move(facts), std::move(rows), normal, crop);
}

}  // namespace

Data open_cifar10(const Options& options, const OpenRequest&) {
  const std::filesystem::path folder = options.text("dir");
  std::vector<std::filesystem::path> files;
  for (int i = 1; i <= 5; ++i) files.push_back(folder / fmt::format("data_batch_{}.bin", i));
  Data data;
  data.name = "cifar10:" + folder.string();
  data.train = read_files(files, options, options.flag("augment", true) ? kMostShift : 0);
  data.test = read_files({folder / "test_batch.bin"}, options, 0);
  return data;
}

}  // namespace lockstep
