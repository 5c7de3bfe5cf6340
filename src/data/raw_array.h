// Files of numbers: their bytes, and the numbers as they lie there, that is their type, their byte
// order and how they are arranged. Parsers make arrays out of bytes that nobody vouches for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

// A file's bytes, mapped and not copied: opening costs nothing, and all workers of a host share the
// one copy in the page cache. The file must not shrink while it is mapped; ours are renamed into
// place and never rewritten.
class FileBytes {
 public:
  // UsageError if it can't be opened or is no ordinary file.
  explicit FileBytes(const std::filesystem::path&);
  ~FileBytes();
  FileBytes(const FileBytes&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

enum class Element : std::uint8_t { u8, i8, u16, i16, u32, i32, u64, i64, f16, f32, f64 };
std::size_t size_of(Element);

struct RawArray {
  Element element = Element::u8;
  bool swapped = false;  // the other byte order than this machine's
  std::vector<std::uint64_t> dims;
  std::span<const std::byte> body;

  std::uint64_t count() const { return dims.empty() ? 0 : dims[0]; }  // of samples
  std::uint64_t bytes_each() const;                                   // of a sample
};

// Finds out whether `body` is exactly what dims and element call for. UsageError, which names
// `where`, if not: a header may lie, and its product may not fit into any number.
RawArray checked(RawArray array, const std::string& where);

// The array in an IDX file (idx.cpp) or in one of NumPy (arrays.cpp), as a view into `bytes`.
// UsageError, which names `where`, unless header and length agree. Of NumPy numbers only, in C
// order: what would have to be unpickled is refused.
RawArray parse_idx(std::span<const std::byte> bytes, const std::string& where);
RawArray parse_npy(std::span<const std::byte> bytes, const std::string& where);

// Each number rounded to fp32.
void to_floats(Element, bool swapped, const std::byte* from, std::size_t count, float* to);

// One class a sample. UsageError unless every number is whole and not negative.
std::vector<int> labels_in(const RawArray&, const std::string& where);

}  // namespace lockstep
