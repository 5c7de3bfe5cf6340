#include "compression/compressor.h"

#include <limits>

#include "core/error.h"
#include "core/rng.h"

namespace lockstep {
namespace {

std::span<float> floats(Values numbers) {
  return {reinterpret_cast<float*>(numbers.bytes().data), numbers.count()};
}

void check_numbers(Values numbers) {
  if (numbers.type() != Type::fp32 || numbers.count() > std::numeric_limits<std::uint32_t>::max())
    throw InternalError(fmt::format("{} {} numbers to compress: at most 2^32 - 1 in fp32",
                                    numbers.count(), name_of(numbers.type())));
}

void check_aligned(ConstBytes message) {
  if (reinterpret_cast<std::uintptr_t>(message.data) % alignof(float) != 0)
    throw InternalError("a compressed message at an address that is not divisible by 4");
}

}  // namespace

std::uint64_t Draw::shared() const {
  return mixed(mixed(mixed(seed) ^ purpose_of("compression") ^ step) ^ bucket);
}

std::uint64_t Draw::own() const {
  return mixed(mixed(shared() ^ static_cast<std::uint64_t>(rank)) + message);
}

std::size_t Compressor::encode(Values numbers, Bytes message, const Draw& draw) {
  check_numbers(numbers);
  if (numbers.count() == 0) return 0;
  if (message.size < most_bytes(numbers.count()))
    throw InternalError(fmt::format("{} bytes of room for a message of up to {}", message.size,
                                    most_bytes(numbers.count())));
  if (numbers.is_hollow() || message.hollow()) return hollow_bytes(numbers.count(), draw);
  check_aligned(message);
  return write(floats(numbers), message.data, draw);
}

void Compressor::join(ConstBytes message, const Draw& of, float factor, Values into, Into how) {
  check_numbers(into);
  if (message.hollow() || into.is_hollow()) return;
  if (into.count() == 0) return check_length(message, 0, 0, of);
  check_aligned(message);
  read(message, of, factor, floats(into), how);
}

void Compressor::decode(ConstBytes message, const Draw& of, Values into) {
  join(message, of, 1, into, Into::replace);
}

void Compressor::add(ConstBytes message, const Draw& of, float factor, Values into) {
  join(message, of, factor, into, Into::add);
}

void check_length(ConstBytes message, std::size_t due, std::size_t count, const Draw& of) {
  if (message.size == due) return;
  throw TransportError(TransportError::Kind::mismatch, of.rank,
                       fmt::format("rank {} sent a compressed message of {} bytes for {} numbers: "
                                   "{} are due",
                                   of.rank, message.size, count, due));
}

}  // namespace lockstep
