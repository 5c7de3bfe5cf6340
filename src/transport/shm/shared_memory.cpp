#include "transport/shm/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "core/error.h"

namespace lockstep {

SharedMemory::SharedMemory(std::size_t bytes) : size_(bytes) {
  fd_ = memfd_create("lockstep", MFD_CLOEXEC);
  if (fd_ < 0) throw_errno("shared memory can't be made (memfd_create)");
  if (ftruncate(fd_, static_cast<off_t>(bytes)) != 0) {
    close(fd_);
    throw_errno(fmt::format("shared memory of {} bytes can't be made", bytes));
  }
  map(false);
}

SharedMemory::SharedMemory(pid_t pid, int fd, std::size_t bytes, bool populate) : size_(bytes) {
  const std::string path = fmt::format("/proc/{}/fd/{}", pid, fd);
  fd_ = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd_ < 0) throw_errno(fmt::format("the shared memory of process {} can't be opened", pid));
  struct stat file;
  if (fstat(fd_, &file) != 0 || static_cast<std::size_t>(file.st_size) < bytes) {
    close(fd_);
    throw InternalError(fmt::format(
        "the shared memory of process {} is smaller than agreed ({} bytes)", pid, bytes));
  }
  map(populate);
}

void SharedMemory::map(bool populate) {
  void* at = mmap(nullptr, size_, PROT_READ | PROT_WRITE,
                  MAP_SHARED | (populate ? MAP_POPULATE : 0), fd_, 0);
  if (at == MAP_FAILED) {
    close(fd_);
    throw_errno(fmt::format("{} bytes of shared memory can't be mapped", size_));
  }
  data_ = static_cast<std::byte*>(at);
}

SharedMemory::~SharedMemory() {
  if (data_) munmap(data_, size_);
  if (fd_ >= 0) close(fd_);
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace lockstep
