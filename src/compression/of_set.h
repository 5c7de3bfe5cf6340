// What the files compiled once per instruction set (core/kernels.cmake) give each other:
// LOCKSTEP_SET names the set, and a namespace of that name keeps the sets apart. The contracts are
// those of the table that kernels_of_set.cpp makes of them, see kernels.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep::LOCKSTEP_SET {

void to_fp16(const float* from, float scale, std::uint16_t* into, std::size_t count);
void to_bf16(const float* from, float scale, std::uint16_t* into, std::size_t count);
void from_fp16(const std::uint16_t* from, float factor, float* into, std::size_t count);
void from_bf16(const std::uint16_t* from, float factor, float* into, std::size_t count);
void add_fp16(const std::uint16_t* from, float factor, float* into, std::size_t count);
void add_bf16(const std::uint16_t* from, float factor, float* into, std::size_t count);

std::size_t above(const float* v, std::size_t count, std::uint32_t least, std::uint32_t first,
                  std::uint32_t* indices, std::size_t room);

void stream(const char* from, char* to, std::size_t bytes);
void end_stream();

}  // namespace lockstep::LOCKSTEP_SET
