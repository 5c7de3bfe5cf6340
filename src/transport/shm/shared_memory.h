// A piece of anonymous shared memory (memfd): it has no name in any file system, so the kernel
// frees it with its last process, however that ends.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace lockstep {

class SharedMemory {
 public:
  SharedMemory() = default;
  // New and zeroed. InternalError if the machine refuses.
  explicit SharedMemory(std::size_t bytes);
  // Another process's, by its process id and descriptor number there; or this process's own.
  // `bytes` must not exceed its real size. `populate`: map every page now, not at first touch.
  SharedMemory(pid_t pid, int fd, std::size_t bytes, bool populate);
  ~SharedMemory();
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  int fd() const { return fd_; }

 private:
  void map(bool populate);

  int fd_ = -1;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace lockstep
