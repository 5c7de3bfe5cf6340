// A run of bytes that somebody else owns; or a hollow one, which has a size and no data and stands
// in for a buffer that would not fit in memory. Copying to or from a hollow run does nothing.
#pragma once

#include <cstddef>
#include <cstring>

#include "core/error.h"

namespace lockstep {

struct Bytes {
  std::byte* data = nullptr;
  std::size_t size = 0;

  bool hollow() const { return data == nullptr && size > 0; }
  bool holds(const void* address) const { return data && address >= data && address < data + size; }
  Bytes part(std::size_t offset, std::size_t length) const {
    return {data ? data + offset : nullptr, length};
  }
};

struct ConstBytes {
  const std::byte* data = nullptr;
  std::size_t size = 0;

  ConstBytes() = default;
  ConstBytes(const void* d, std::size_t n) : data(static_cast<const std::byte*>(d)), size(n) {}
  // NOLINTNEXTLINE(google-explicit-constructor): a view may always lose its right to write
  ConstBytes(Bytes b) : data(b.data), size(b.size) {}

  bool hollow() const { return data == nullptr && size > 0; }
  ConstBytes part(std::size_t offset, std::size_t length) const {
    return {data ? data + offset : nullptr, length};
  }
};

// The bytes of one object of a plain type.
template <class T>
Bytes bytes_of(T& object) {
  return {reinterpret_cast<std::byte*>(&object), sizeof object};
}

// Copies from.size bytes. Nothing happens when either side is hollow. REQUIRES: equal sizes.
inline void copy(Bytes into, ConstBytes from) {
  if (into.size != from.size)
    throw InternalError(fmt::format("copy of {} bytes into {}", from.size, into.size));
  if (into.data && from.data && from.size) std::memcpy(into.data, from.data, from.size);
}

// How arriving bytes join those that are there, e.g. into[i] += from[i]: a function, and a state of
// its own if it needs one, which the maker keeps alive as long as this is used. Bytes are whole
// elements. Any thread; calls for different elements don't meet. A null one stands for overwriting.
class Combine {
 public:
  using Function = void (*)(void* into, const void* from, std::size_t bytes, const void* state);

  // NOLINTNEXTLINE(google-explicit-constructor): `nullptr` and a function say all there is to say
  constexpr Combine(std::nullptr_t = nullptr) {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr Combine(Function function, const void* state = nullptr)
      : function_(function), state_(state) {}

  explicit operator bool() const { return function_ != nullptr; }
  void operator()(void* into, const void* from, std::size_t bytes) const {
    function_(into, from, bytes, state_);
  }
  bool operator==(const Combine&) const = default;

 private:
  Function function_ = nullptr;
  const void* state_ = nullptr;
};

}  // namespace lockstep
