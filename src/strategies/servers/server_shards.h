// How the parameters are cut into what each server holds, and how the loss of one is told.
#pragma once

#include "core/error.h"
#include "strategies/strategy.h"

namespace lockstep {

// What server k of the crew holds of `count` parameters.
inline Slice server_shard(const Crew& crew, int k, std::size_t count) {
  return chunk(count, crew.servers, k);
}

// In a handler: throws what is handled, or, if a server is to blame, the same with what it held.
[[noreturn]] void rethrow_naming_server(const Crew&, std::size_t count, const TransportError&);

template <class F>
auto naming_servers(const Crew& crew, std::size_t count, F&& call) {
  try {
    return call();
  } catch (const TransportError& e) {
    rethrow_naming_server(crew, count, e);
  }
}

}  // namespace lockstep
