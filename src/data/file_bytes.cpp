#include "data/file_bytes.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "core/error.h"

namespace lockstep {

FileBytes::FileBytes(const std::filesystem::path& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) throw UsageError(fmt::format("{}: {}", path.string(), std::strerror(errno)));
  struct stat status {};
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(file);
    throw UsageError(fmt::format("{} is not an ordinary file", path.string()));
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  void* memory = size > 0 ? mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0) : nullptr;
  const int error = errno;
  close(file);
  if (memory == MAP_FAILED)
    throw UsageError(fmt::format("{}: {}", path.string(), std::strerror(error)));
  bytes_ = {static_cast<const std::byte*>(memory), size};
}

FileBytes::~FileBytes() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace lockstep
