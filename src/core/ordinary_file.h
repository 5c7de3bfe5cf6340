// Opening what should be a file. In a folder that comes from elsewhere the name may be a link to
// any file of ours, a FIFO that nobody ever writes to, or a device without an end: opening those
// is refused, and never waits.
#pragma once

#include <cstdint>
#include <string>

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

}  // namespace lockstep
