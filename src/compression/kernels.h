// The loops of compressors over numbers, compiled once per instruction set and chosen when the
// program starts, as core/kernels.h does it. All sets give the same bits: sums go into kLanes
// partial sums, one for each index modulo kLanes, whatever the width of a register is.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep {

inline constexpr std::size_t kLanes = 16;
// Codes of less than 8 bits are packed in blocks of so many; see pack.
inline constexpr std::size_t kPacked = 512;
// `above` may write so many indices more than it says, all of them of no use.
inline constexpr std::size_t kSlack = 16;

// Sums of the numbers below zero and of the others, and how many are below.
struct TwoSums {
  double below = 0, others = 0;
  std::size_t count_below = 0;
};

// DGC's momentum correction, for each element:
//   g = scale * g + weight_decay * w
//   u = momentum * u + g, v = v + u;  Nesterov's: u = momentum * (u + g), v = v + u + g
struct Correction {
  float scale = 1, weight_decay = 0, momentum = 0;
  bool nesterov = false;
};

struct CodeKernels {
  const char* instruction_set;

  // 16 bits, rounded to nearest even: into[i] = from[i] * scale. Of fp16, then of bf16.
  void (*narrow[2])(const float* from, float scale, std::uint16_t* into, std::size_t count);
  // into[i] = from[i] * factor, or that is added.
  void (*widen[2])(const std::uint16_t* from, float factor, float* into, std::size_t count);
  void (*add_widened[2])(const std::uint16_t* from, float factor, float* into, std::size_t count);

  // The bits of the largest magnitude: from 0x7f800000 on some number is not finite.
  std::uint32_t (*largest)(const float* v, std::size_t count);
  double (*sum)(const float* v, std::size_t count);
  double (*sum_of_magnitudes)(const float* v, std::size_t count);
  double (*sum_of_squares)(const float* v, std::size_t count);
  TwoSums (*two_sums)(const float* v, std::size_t count);

  // Codes: v[i] * per_unit, rounded to a whole number from -levels to levels, plus levels. To the
  // nearest (even), or up with the probability of the fraction; the draw for v[i] depends on `key`
  // and first + i. Numbers beyond the ends count as the ends.
  void (*nearest)(const float* v, float per_unit, int levels, std::uint8_t* codes,
                  std::size_t count);
  void (*drawn)(const float* v, float per_unit, int levels, std::uint64_t key, std::uint32_t first,
                std::uint8_t* codes, std::size_t count);
  // 0 where v[i] < 0, else 1: also for -0 and NaN.
  void (*signs)(const float* v, std::uint8_t* codes, std::size_t count);
  // sum_of_magnitudes, and in the same pass the signs of all full blocks of kPacked numbers as
  // `pack` leaves them.
  double (*pack_signs)(const float* v, std::uint8_t* packed, std::size_t count);
  // into[i] = (codes[i] - zero) * unit, or that is added.
  void (*units)(const std::uint8_t* codes, int zero, float unit, float* into, std::size_t count);
  void (*add_units)(const std::uint8_t* codes, int zero, float unit, float* into,
                    std::size_t count);
  // into[i] = codes[i] is even ? even : odd, or that is added.
  void (*either)(const std::uint8_t* codes, float even, float odd, float* into, std::size_t count);
  void (*add_either)(const std::uint8_t* codes, float even, float odd, float* into,
                     std::size_t count);
  // kPacked codes of b bits, as rows of 64: of the eight codes in a column each byte of a packed
  // column takes the next 8 bits. By b, from 1 to 8.
  void (*pack[9])(const std::uint8_t* codes, std::uint8_t* packed);
  void (*unpack[9])(const std::uint8_t* packed, std::uint8_t* codes);

  // Copies past the caches. Other threads may be told of it after end_stream().
  void (*stream)(const char* from, char* to, std::size_t bytes);
  void (*end_stream)();

  // The indices, plus `first`, of numbers whose magnitude has bits of at least `least`, ascending.
  // Returns how many there are; only the first `room` of them are written.
  std::size_t (*above)(const float* v, std::size_t count, std::uint32_t least, std::uint32_t first,
                       std::uint32_t* indices, std::size_t room);

  void (*correct)(const Correction&, const float* g, const float* w, float* u, float* v,
                  std::size_t count);  // w may be null where weight_decay is 0

  double (*dot)(const float* a, const float* b, std::size_t count);
  void (*add_scaled)(float factor, const float* from, float* into, std::size_t count);
};

// The widest set this processor has.
const CodeKernels& code_kernels();
// Every set this processor has, baseline first.
std::size_t code_kernel_sets(const CodeKernels* out[3]);

}  // namespace lockstep
