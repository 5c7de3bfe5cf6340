#include "core/values.h"

#include <array>
#include <span>

#include "core/error.h"
#include "core/kernels.h"
#include "core/names.h"

namespace lockstep {
namespace {

constexpr std::array<std::string_view, 7> kTypes{"fp32",  "fp64",  "fp16", "bf16",
                                                 "int32", "int64", "bytes"};
constexpr std::array<std::size_t, 7> kSizes{4, 8, 2, 2, 4, 8, 1};
constexpr std::size_t kNumberTypes = 6;  // all but plain bytes
constexpr std::array<std::string_view, 4> kOps{"sum", "mean", "min", "max"};

}  // namespace

std::size_t size_of(Type type) { return kSizes[static_cast<std::size_t>(type)]; }
std::string_view name_of(Type type) { return kTypes[static_cast<std::size_t>(type)]; }
std::string_view name_of(Op op) { return kOps[static_cast<std::size_t>(op)]; }
Type type_named(std::string_view name) {
  return static_cast<Type>(index_named("type", name, std::span(kTypes).first(kNumberTypes)));
}

std::size_t kernel_row(Type type) {
  const auto row = static_cast<std::size_t>(type);
  if (row >= kNumberTypes) throw InternalError("plain bytes are joined by no operator");
  return row;
}

Values Values::part(Slice slice) const {
  if (slice.end() > count_)
    throw InternalError(fmt::format("slice {}..{} of {} values", slice.begin, slice.end(), count_));
  std::byte* at = data_ ? data_ + slice.begin * size_of(type_) : nullptr;
  return {at, slice.count, type_, op_};
}

Combine Values::combine() const {
  const std::size_t type = kernel_row(type_);
  if (is_hollow()) return nullptr;
  if (op_ == Op::min) return kernels().min[type];
  if (op_ == Op::max) return kernels().max[type];
  return kernels().add[type];
}

std::uint8_t Values::format() const {
  if (type_ == Type::bytes) return 0;
  return static_cast<std::uint8_t>(0x80 | static_cast<int>(type_) << 3 | static_cast<int>(op_));
}

std::string format_name(std::uint8_t format) {
  if (format == 0) return "plain bytes";
  return fmt::format("{} {}", kTypes.at(format >> 3 & 0xf), kOps.at(format & 7));
}

void combine(Values into, ConstBytes from) {
  if (from.size != into.bytes().size)
    throw InternalError(fmt::format("combining {} bytes into {}", from.size, into.bytes().size));
  if (into.is_hollow() || from.hollow() || from.size == 0) return;
  into.combine()(into.bytes().data, from.data, from.size);
}

void scale(Values v, double factor) {
  if (v.is_hollow() || v.count() == 0) return;
  kernels().scale[kernel_row(v.type())](v.bytes().data, v.count(), factor);
}

}  // namespace lockstep
