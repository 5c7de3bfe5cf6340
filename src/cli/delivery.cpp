#include "cli/delivery.h"

#include <fmt/format.h>

#include <cstring>

namespace lockstep {

int delivered(int status, Output& out, Output& err, const std::string& kept_in) {
  out.drain();
  const int failure = out.failure();
  if (failure == 0) return status;
  err.say(fmt::format("lockstep: can't write to stdout: {}; what came of it is in {}\n",
                      std::strerror(failure), kept_in));
  return status == 0 ? 1 : status;
}

}  // namespace lockstep
