#include "transport/tag.h"

namespace lockstep {

std::string_view name_of(Purpose purpose) {
  switch (purpose) {
    case Purpose::control:
      return "control";
    case Purpose::setup:
      return "setup";
    case Purpose::gradients:
      return "gradients";
    case Purpose::weights:
      return "weights";
    case Purpose::evaluation:
      return "evaluation";
    case Purpose::activations:
      return "activations";
  }
  return "?";
}

}  // namespace lockstep
