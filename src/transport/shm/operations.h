// An open operation of a shm lane.
#pragma once

#include <optional>

#include "transport/operations.h"

namespace lockstep {

struct ShmOperation {
  enum class Stage { waiting, streaming, done, failed };
  Stage stage = Stage::waiting;
  std::uint64_t id = 0;
  bool sends = false;
  bool is_bell = false;
  int peer = 0;
  Tag tag;
  ConstBytes out;  // what is sent,
  Bytes into;      // or where it lands
  Combine combine = nullptr;
  std::size_t moved = 0;  // bytes so far
  std::size_t size = 0;   // of the message
  std::optional<TransportError> error;
};

using ShmOperations = Operations<ShmOperation>;

}  // namespace lockstep
