// Files that are whole or not there: written under a temporary name, flushed to disk, renamed.
//
// In a folder that comes from elsewhere a name may be a link to any file of ours, a FIFO that
// nobody ever writes to, or a device without an end: opening those is refused, and never waits.
#pragma once

#include <cstdint>
#include <string>

#include "core/bytes.h"

namespace lockstep {

struct OpenedFile {
  int descriptor = -1;      // the caller's to close
  std::string why_not;      // why there is none: "it is a link", or the kernel's words
  std::uint64_t bytes = 0;  // its length
};

// Follows links: who reads can only be shown something else.
OpenedFile open_to_read(const std::string& path);
// `flags` as open(2) has them: O_WRONLY | O_CREAT, and so on. A link is not followed.
OpenedFile open_to_write(const std::string& path, int flags);

// InternalError, which begins with `what`: "can't write FILE".
void write_all(int descriptor, ConstBytes, const std::string& what);

// InternalError says which file and why.
void write_whole(const std::string& path, ConstBytes);
void write_whole(const std::string& path, const std::string& text);
// Of a file: what is in it; of a folder: which names are. InternalError.
void flush_to_disk(const std::string& path);
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
