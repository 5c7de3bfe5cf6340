#include "core/bytes.h"

#include <cstring>

#include "core/error.h"

namespace lockstep {

void copy(Bytes into, ConstBytes from) {
  if (into.size != from.size)
    throw InternalError(fmt::format("copy of {} bytes into {}", from.size, into.size));
  if (into.data && from.data && from.size) std::memcpy(into.data, from.data, from.size);
}

}  // namespace lockstep
