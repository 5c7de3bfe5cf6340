// NumPy's .npy files: numbers only, in C order. What would have to be unpickled is refused.
#pragma once

#include "data/raw_array.h"

namespace lockstep {

// A view into `bytes`. UsageError, which names `where`, unless header and length agree.
RawArray parse_npy(std::span<const std::byte> bytes, const std::string& where);

}  // namespace lockstep
