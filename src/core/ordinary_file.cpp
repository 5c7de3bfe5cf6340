#include "core/ordinary_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace lockstep {
namespace {

OpenedFile opened(const std::string& path, int flags) {
  // Without O_NONBLOCK opening a FIFO waits for its other end. To an ordinary file it means
  // nothing.
  const int file = open(path.c_str(), flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
  if (file < 0 && errno == ELOOP && (flags & O_NOFOLLOW)) return {-1, "it is a link", 0};
  if (file < 0) return {-1, std::strerror(errno), 0};
  struct stat about {};
  if (fstat(file, &about) == 0 && S_ISREG(about.st_mode))
    return {file, "", static_cast<std::uint64_t>(about.st_size)};
  close(file);
  return {-1, S_ISDIR(about.st_mode) ? "it is a folder" : "it is not an ordinary file", 0};
}

}  // namespace

OpenedFile open_to_read(const std::string& path) { return opened(path, O_RDONLY); }
OpenedFile open_to_write(const std::string& path, int flags) {
  return opened(path, flags | O_NOFOLLOW);
}

}  // namespace lockstep
