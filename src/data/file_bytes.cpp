#include "data/file_bytes.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/error.h"
#include "core/whole_file.h"

namespace lockstep {

FileBytes::FileBytes(const std::filesystem::path& path) {
  const OpenedFile file = open_to_read(path.string());
  if (file.descriptor < 0)
    throw UsageError(fmt::format("can't open {}: {}", path.string(), file.why_not));
  const auto size = static_cast<std::size_t>(file.bytes);
  void* memory =
      size > 0 ? mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.descriptor, 0) : nullptr;
  const int error = errno;
  close(file.descriptor);
  if (memory == MAP_FAILED)
    throw UsageError(fmt::format("{}: {}", path.string(), std::strerror(error)));
  bytes_ = {static_cast<const std::byte*>(memory), size};
}

FileBytes::~FileBytes() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace lockstep
