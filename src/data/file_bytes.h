// A file's bytes, mapped and not copied: opening costs nothing, and all workers of a host share the
// one copy in the page cache. The file must not shrink while it is mapped; ours are renamed into
// place and never rewritten.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace lockstep {

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

}  // namespace lockstep
