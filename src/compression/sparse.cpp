#include "compression/sparse.h"

#include <algorithm>

#include "core/error.h"

namespace lockstep {
namespace {

// Ascending indices have no repeats, so that no number is added twice, and only the last can be
// beyond the end.
void check_indices(std::span<const std::uint32_t> indices, std::size_t count, const Draw& of) {
  bool ascending = true;
  for (std::size_t i = 1; i < indices.size(); ++i) ascending &= indices[i - 1] < indices[i];
  if (ascending && (indices.empty() || indices.back() < count)) return;
  throw TransportError(TransportError::Kind::mismatch, of.rank,
                       fmt::format("rank {} sent a compressed message whose {} indices are not "
                                   "ascending and below {}",
                                   of.rank, indices.size(), count));
}

}  // namespace

std::span<const std::uint32_t> indices_in(ConstBytes message) {
  return {reinterpret_cast<const std::uint32_t*>(message.data), message.size / kPair};
}

std::size_t Sparse::write(std::span<const float> numbers, std::byte* message, const Draw& draw) {
  auto* indices = reinterpret_cast<std::uint32_t*>(message);
  const std::size_t k = choose(numbers, draw, indices);
  auto* values = reinterpret_cast<float*>(indices + k);
  for (std::size_t i = 0; i < k; ++i) values[i] = numbers[indices[i]];
  return k * kPair;
}

void Sparse::read(ConstBytes message, const Draw& of, float factor, std::span<float> into,
                  Into how) {
  if (message.size % kPair != 0 || message.size > most_bytes(into.size()))
    throw TransportError(
        TransportError::Kind::mismatch, of.rank,
        fmt::format("rank {} sent a compressed message of {} bytes for {} "
                    "numbers: pairs of {} bytes, {} at most, are due",
                    of.rank, message.size, into.size(), kPair, most_bytes(into.size())));
  const auto indices = indices_in(message);
  check_indices(indices, into.size(), of);
  const auto* values = reinterpret_cast<const float*>(indices.data() + indices.size());
  if (how == Into::replace) std::ranges::fill(into, 0.f);
  for (std::size_t i = 0; i < indices.size(); ++i) into[indices[i]] += factor * values[i];
}

}  // namespace lockstep
