#include "transport/failure.h"

#include "core/values.h"

namespace lockstep {
namespace {

using Kind = TransportError::Kind;

std::string text(Tag tag) { return fmt::format("{} #{}", name_of(tag.purpose), tag.number); }

}  // namespace

TransportError died(int peer, const std::string& reason) {
  return {Kind::dead, peer,
          reason.empty() ? fmt::format("rank {} died", peer)
                         : fmt::format("rank {} died: {}", peer, reason)};
}

TransportError departed(int peer, int waiter, Tag tag) {
  return {
      Kind::left, peer,
      fmt::format("rank {} left the job while rank {} waited for its {}", peer, waiter, text(tag))};
}

TransportError too_late(int peer, int waiter, Tag tag) {
  return {
      Kind::deadline, peer,
      fmt::format(
          "rank {} waited in vain for rank {} ({}): it is slow, stopped, or does something else",
          waiter, peer, text(tag))};
}

std::optional<TransportError> misfit(int peer, std::uint8_t format, std::size_t bytes, int waiter,
                                     Tag tag, std::size_t room) {
  if (format != tag.format)
    return TransportError(
        Kind::mismatch, peer,
        fmt::format("rank {} sent {} where rank {} expects {} ({}): all ranks must call with the "
                    "same type and operator",
                    peer, format_name(format), waiter, format_name(tag.format), text(tag)));
  if (bytes > room)
    return TransportError(
        Kind::mismatch, peer,
        fmt::format("rank {} sent {} bytes where rank {} expects {} ({}): all ranks must call with "
                    "the same size",
                    peer, bytes, waiter, room, text(tag)));
  return {};
}

Blame blame_of(const TransportError& error) {
  if (error.kind() == Kind::dead) return {error.peer(), true};
  if (error.kind() == Kind::left) return {error.peer(), false};
  return {};
}

TransportError gone(int peer, Blame blame, int waiter, Tag tag) {
  if (blame.nobody() || blame.rank == waiter) return departed(peer, waiter, tag);
  if (!blame.died) return departed(blame.rank, waiter, tag);
  return died(blame.rank, fmt::format("said rank {}, which left therefore", peer));
}

void check_peer(int peer, int rank, int size, const char* verb) {
  if (peer >= 0 && peer < size && peer != rank) return;
  throw UsageError(fmt::format("rank {} can't {} rank {}: peers are 0..{} without itself", rank,
                               verb, peer, size - 1));
}

void check_real(ConstBytes bytes) {
  if (bytes.hollow())
    throw UsageError(fmt::format(
        "{} bytes without data can't go over a real network: simulate them", bytes.size));
}

}  // namespace lockstep
