// What a UsageError says, for tests of refusals.
#pragma once

#include <functional>
#include <string>

#include "core/error.h"

namespace lockstep {

// "taken" if nothing is thrown.
inline std::string refusal_of(const std::function<void()>& build) {
  try {
    build();
  } catch (const UsageError& e) {
    return e.what();
  }
  return "taken";
}

}  // namespace lockstep
