// arrays:DIR: x.npy and y.npy of any shape (audio, volumes, features), with x_test.npy and
// y_test.npy or a part at the end held out to test with. Files of NumPy: numbers only, in C order;
// what would have to be unpickled is refused.
#pragma once

#include "data/raw_array.h"

namespace lockstep {

// A view into `bytes`. UsageError, which names `where`, unless header and length agree.
RawArray parse_npy(std::span<const std::byte> bytes, const std::string& where);

}  // namespace lockstep
