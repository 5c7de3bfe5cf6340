// 2 bytes a number, rounded to nearest even: the message of fp16 and bf16, and a Values that any
// all-reduce adds up. Numbers are multiplied by `scale` before and divided by it after.
#pragma once

#include "compression/compression.h"

namespace lockstep {

// Without error feedback. `type` is fp16 or bf16.
Compression narrow_compression(Type type, float scale);

}  // namespace lockstep
