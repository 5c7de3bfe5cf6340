#include "core/error.h"

#include <cerrno>
#include <cstring>

namespace lockstep {

void throw_errno(const std::string& what) {
  throw InternalError(fmt::format("{}: {}", what, std::strerror(errno)));
}

}  // namespace lockstep
