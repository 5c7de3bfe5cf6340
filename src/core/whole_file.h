// Files that are whole or not there: written under a temporary name, flushed to disk, renamed.
// Nothing is written through a link, and nothing waits for a FIFO (see core/ordinary_file.h).
#pragma once

#include <cstdint>
#include <string>

#include "core/bytes.h"

namespace lockstep {

// InternalError says which file and why.
void write_whole(const std::string& path, ConstBytes);
void write_whole(const std::string& path, const std::string& text);
// Replaces `to`, a folder or a file, by `from`; the name is on disk when this returns. At every
// moment `to` is the old one or the new one, whole. (Of file systems that can't exchange two
// folders' names, NFS among them, a crash at the wrong moment leaves the old one as TO.old.)
void move_into_place(const std::string& from, const std::string& to);
// Makes a file of so many bytes, for which the disk has room. InternalError.
void reserve_file(const std::string& path, std::uint64_t bytes);
// Appends the text whole or not at all, and hands it to the kernel, so that a crash of this process
// loses nothing of it.
void append_text(const std::string& path, const std::string& text);
void append_line(const std::string& path, const std::string& line);
// A UsageError calls the file `what`: "the profile", say.
std::string read_whole(const std::string& path, const std::string& what = "");
// Hexadecimal SHA-256.
std::string checksum(ConstBytes);
// Of what comes piece by piece.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  void add(ConstBytes);
  std::string text();  // once, at the end

 private:
  void* const context_;  // OpenSSL's
};
struct FileSum {
  std::uint64_t bytes = 0;
  std::string sha256;
};
FileSum checksum_of_file(const std::string& path);  // UsageError

}  // namespace lockstep
