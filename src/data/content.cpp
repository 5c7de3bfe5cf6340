#include "data/content.h"

#include <algorithm>
#include <filesystem>

#include "core/whole_file.h"

namespace lockstep {
namespace {

void add_to(Sha256& sum, const Dataset& set) {
  constexpr std::size_t kMostNumbers = 1 << 26, kMostSlow = 64;
  const std::size_t numbers = std::max<std::size_t>(1, set.values());
  const std::size_t most = set.slow() ? kMostSlow : std::max(kMostSlow, kMostNumbers / numbers);
  sum.add({set.shape().data(), set.shape().size() * sizeof set.shape()[0]});
  sum.add({set.labels().data(), set.labels().size_bytes()});
  std::vector<float> sample(numbers);
  const std::size_t taken = std::min(most, set.size());
  for (std::size_t i = 0; i < taken; ++i) {
    const auto index = static_cast<std::uint32_t>(i * set.size() / taken);
    set.read({&index, 1}, 0, sample.data());
    sum.add({sample.data(), sample.size() * sizeof sample[0]});
  }
}

}  // namespace

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
