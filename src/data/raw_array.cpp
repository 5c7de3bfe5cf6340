#include "data/raw_array.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "core/whole_file.h"

namespace lockstep {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::array<std::size_t, 11> kSizes{1, 1, 2, 2, 4, 4, 8, 8, 2, 4, 8};
constexpr float kMostClasses = 1 << 20;  // fp32 counts that far exactly

template <class T, bool swapped>
void convert(const std::byte* from, std::size_t count, float* to) {
  for (std::size_t i = 0; i < count; ++i) {
    std::array<std::byte, sizeof(T)> bytes;
    std::memcpy(bytes.data(), from + i * sizeof(T), sizeof(T));
    if constexpr (swapped) std::reverse(bytes.begin(), bytes.end());
    T number;
    std::memcpy(&number, bytes.data(), sizeof(T));
    to[i] = static_cast<float>(number);
  }
}

using Convert = void (*)(const std::byte*, std::size_t, float*);
template <bool swapped>
constexpr std::array<Convert, 11> kConvert{
    convert<std::uint8_t, swapped>,  convert<std::int8_t, swapped>,
    convert<std::uint16_t, swapped>, convert<std::int16_t, swapped>,
    convert<std::uint32_t, swapped>, convert<std::int32_t, swapped>,
    convert<std::uint64_t, swapped>, convert<std::int64_t, swapped>,
    convert<_Float16, swapped>,      convert<float, swapped>,
    convert<double, swapped>};

}  // namespace

FileBytes::FileBytes(const std::filesystem::path& path) {
  const OpenedFile file = open_to_read(path.string());
  if (file.descriptor < 0)
    throw UsageError(fmt::format("can't open {}: {}", path.string(), file.why_not));
  const auto size = static_cast<std::size_t>(file.bytes);
  void* memory =
      size > 0 ? mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.descriptor, 0) : nullptr;
  const int error = errno;
  close(file.descriptor);
  if (memory == MAP_FAILED)
    throw UsageError(fmt::format("{}: {}", path.string(), std::strerror(error)));
  bytes_ = {static_cast<const std::byte*>(memory), size};
}

FileBytes::~FileBytes() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

std::size_t size_of(Element element) { return kSizes[static_cast<std::size_t>(element)]; }

std::uint64_t RawArray::bytes_each() const {
  std::uint64_t bytes = size_of(element);
  for (std::size_t d = 1; d < dims.size(); ++d) bytes *= dims[d];
  return bytes;
}

RawArray checked(RawArray array, const std::string& where) {
  std::uint64_t bytes = size_of(array.element);
  bool fits = !array.dims.empty();
  for (std::uint64_t extent : array.dims) {
    if (extent == 0) throw UsageError(where + " holds no samples");
    fits = fits && !__builtin_mul_overflow(bytes, extent, &bytes);
  }
  if (!fits || bytes != array.body.size())
    throw UsageError(
        fmt::format("{}: its header speaks of {} numbers of {} bytes, but {} bytes follow", where,
                    fmt::join(array.dims, " x "), size_of(array.element), array.body.size()));
  return array;
}

void to_floats(Element element, bool swapped, const std::byte* from, std::size_t count, float* to) {
  const auto type = static_cast<std::size_t>(element);
  (swapped ? kConvert<true> : kConvert<false>)[type](from, count, to);
}

std::vector<int> labels_in(const RawArray& array, const std::string& where) {
  if (array.bytes_each() != size_of(array.element))
    throw UsageError(fmt::format("{}: labels are one number a sample, not {}", where,
                                 fmt::join(array.dims, " x ")));
  std::vector<float> numbers(array.count());
  to_floats(array.element, array.swapped, array.body.data(), numbers.size(), numbers.data());
  std::vector<int> labels;
  labels.reserve(numbers.size());
  for (float number : numbers) {
    if (!(number >= 0 && number < kMostClasses && number == std::floor(number)))
      throw UsageError(fmt::format("{}: label {} of sample {} is not a class: they count from 0",
                                   where, number, labels.size()));
    labels.push_back(static_cast<int>(number));
  }
  return labels;
}

}  // namespace lockstep
