// Files that are whole or not there: written under a temporary name, flushed to disk, renamed.
#pragma once

#include <string>

#include "core/bytes.h"

namespace lockstep {

// InternalError says which file and why.
void write_whole(const std::string& path, ConstBytes);
void write_whole(const std::string& path, const std::string& text);
// Replaces `to`, a folder or a file, by `from`; the name is on disk when this returns.
void move_into_place(const std::string& from, const std::string& to);
// Appends and hands it to the kernel, so that a crash of this process loses none.
void append_text(const std::string& path, const std::string& text);
void append_line(const std::string& path, const std::string& line);
std::string read_whole(const std::string& path);  // UsageError
// Hexadecimal SHA-256.
std::string checksum(ConstBytes);

}  // namespace lockstep
