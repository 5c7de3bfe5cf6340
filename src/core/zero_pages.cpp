#include "core/zero_pages.h"

#include <sys/mman.h>

#include <algorithm>

#include "core/error.h"

namespace lockstep {
namespace {

std::size_t mapped(std::size_t bytes) { return std::max<std::size_t>(bytes, 1); }

}  // namespace

ZeroPages::ZeroPages(std::size_t bytes) : size_(bytes) {
  void* at = mmap(nullptr, mapped(bytes), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) throw_errno(fmt::format("mapping {} bytes", bytes));
  data_ = static_cast<std::byte*>(at);
}

ZeroPages::~ZeroPages() { munmap(data_, mapped(size_)); }

}  // namespace lockstep
