// Messages that are shorter than the numbers in them. A Compressor is a message format: it encodes
// fp32 numbers and decodes what another rank encoded. It knows nothing of ranks and networks; how
// an average is made of such messages is told by its Averaging (compression.h).
//
// Messages. Each starts at an address that is divisible by 4, and numbers in it have this machine's
// order of bytes. Only the rank that encodes a message knows its length beforehand; none is longer
// than most_bytes(). Decoders trust nobody: whatever the bytes are, they read and write within
// bounds, and what is no message ends in a TransportError (mismatch) that names Draw::rank, before
// anything is written.
//
// NaN and infinity. A run of numbers with one of them never decodes to finite numbers only: sparse
// formats and those of 16 bits carry the number itself; formats with a scale send a NaN for the
// scale, so that all numbers under it decode to NaN; random-k sends NaN for all its values. What is
// finite decodes to finite numbers, but for fp16 beyond 65504, which becomes infinite, and numbers
// near the end of fp32's range.
//
// Hollow numbers: encode() returns the length that a message would have and writes nothing;
// decode() and add() do nothing.
//
// A Compressor belongs to one thread. It keeps no state between calls but room to work in, which it
// allocates the first time that it sees so many numbers.
#pragma once

#include <cstdint>
#include <span>

#include "core/values.h"

namespace lockstep {

// What the random numbers of a message depend on, so that simulation and processes draw the same.
struct Draw {
  std::uint64_t seed = 0;     // of the run
  int rank = 0;               // the one that encodes
  std::uint64_t step = 0;     // of training
  std::uint32_t bucket = 0;   // of gradients
  std::uint32_t message = 0;  // which of this rank's messages of that bucket and step

  std::uint64_t own() const;     // a key that no other message has
  std::uint64_t shared() const;  // a key that all ranks have for this step and bucket
};

class Compressor {
 public:
  virtual ~Compressor() = default;

  // Of any message that encodes so many numbers. 0 for none.
  virtual std::size_t most_bytes(std::size_t count) const = 0;

  // Writes a message and returns its length. `numbers` are left as they are. REQUIRES: fp32, at
  // most 2^32 - 1 of them; room for most_bytes().
  std::size_t encode(Values numbers, Bytes message, const Draw&);
  // into = what the message says. `of` is what it was encoded with.
  void decode(ConstBytes message, const Draw& of, Values into);
  // into += factor * what the message says, in one pass.
  void add(ConstBytes message, const Draw& of, float factor, Values into);

 protected:
  enum class Into { replace, add };

  // At least one number, neither numbers nor message hollow.
  virtual std::size_t write(std::span<const float> numbers, std::byte* message, const Draw&) = 0;
  // What replaces is not multiplied: factor is 1.
  virtual void read(ConstBytes message, const Draw& of, float factor, std::span<float> into,
                    Into) = 0;
  // Of a message whose numbers are not known.
  virtual std::size_t hollow_bytes(std::size_t count, const Draw&) const {
    return most_bytes(count);
  }

 private:
  void join(ConstBytes message, const Draw& of, float factor, Values into, Into);
};

// For decoders. Throws a TransportError: "rank 3 sent a message of 12 bytes for 5 numbers: 9 are
// due".
void check_length(ConstBytes message, std::size_t due, std::size_t count, const Draw& of);

}  // namespace lockstep
