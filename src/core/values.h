// What a collective works on: a typed run of numbers and the operator that joins them. The memory
// is the caller's. Hollow values (see bytes.h) have a count and no data; every kernel passes over
// them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/bytes.h"
#include "core/slices.h"

namespace lockstep {

// `bytes` are plain: they can be sent, and no operator joins them. The others are numbers.
enum class Type : std::uint8_t { fp32, fp64, fp16, bf16, int32, int64, bytes };
enum class Op : std::uint8_t { sum, mean, min, max };

std::size_t size_of(Type);
std::string_view name_of(Type);
std::string_view name_of(Op);
Type type_named(std::string_view);  // of numbers; UsageError lists the names

class Values {
 public:
  Values(void* data, std::size_t count, Type type, Op op = Op::sum)
      : data_(static_cast<std::byte*>(data)), count_(count), type_(type), op_(op) {}
  static Values hollow(std::size_t count, Type type, Op op = Op::sum) {
    return {nullptr, count, type, op};
  }

  std::size_t count() const { return count_; }
  Type type() const { return type_; }
  Op op() const { return op_; }
  bool is_hollow() const { return data_ == nullptr && count_ > 0; }

  Bytes bytes() const { return {data_, count_ * size_of(type_)}; }
  Values part(Slice) const;
  // The same numbers, to be joined by another operator.
  Values as(Op op) const { return {data_, count_, type_, op}; }

  // The kernel that folds another rank's values into these; `mean` adds. See total.h for several.
  // InternalError for plain bytes.
  Combine combine() const;
  // Type and operator in one byte, for the wire: ranks that disagree are told so. Zero: plain
  // bytes.
  std::uint8_t format() const;

 private:
  std::byte* data_;
  std::size_t count_;
  Type type_;
  Op op_;
};

// "fp32 mean", for messages about a Values::format().
std::string format_name(std::uint8_t format);

// into[i] = into[i] (op) from[i]; `mean` adds.
void combine(Values into, ConstBytes from);
// v[i] *= factor, rounded once to the type; integers are truncated towards zero.
void scale(Values v, double factor);
// The row of a kernel table that belongs to a type. InternalError for plain bytes, which have none.
std::size_t kernel_row(Type);

}  // namespace lockstep
