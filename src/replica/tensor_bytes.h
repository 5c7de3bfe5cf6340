// How many bytes the tensors of this process take: those that LibTorch allocates, and so neither
// weights nor gradients of a flat model, whose memory is the caller's.
#pragma once

#include <cstdint>

namespace lockstep {

// From then on tensors are counted as they come and go. For the whole process, since LibTorch's
// allocator is; another call changes nothing. Any thread may ask.
void count_tensor_bytes();

std::uint64_t live_tensor_bytes();
// The most since forget_tensor_peak().
std::uint64_t peak_tensor_bytes();
void forget_tensor_peak();

}  // namespace lockstep
