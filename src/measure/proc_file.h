// A file of /proc or of a cgroup that is read over and over: opened once, read into the same
// buffer, without allocation. Belongs to one thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

class ProcFile {
 public:
  explicit ProcFile(const std::string& path);
  ~ProcFile();
  ProcFile(const ProcFile&) = delete;

  bool there() const { return fd_ >= 0; }
  // Its first 8 KiB as they are now; empty if it can't be read. Valid until the next call.
  std::string_view read();

 private:
  int fd_;
  std::array<char, 8192> text_;
};

// The first number at or after the end of the first `name`; nothing where there is none.
std::optional<std::uint64_t> number_after(std::string_view text, std::string_view name);
// The number that the text starts with, blanks apart; takes it, and what was before it, off.
std::optional<std::uint64_t> take_number(std::string_view& text);

}  // namespace lockstep
