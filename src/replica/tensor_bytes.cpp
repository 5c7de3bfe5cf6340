#include "replica/tensor_bytes.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>

namespace lockstep {
namespace {

// As the allocator that LibTorch comes with, but that it counts. What was allocated before is freed
// by whoever allocated it, and not counted.
class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t size) const override {
    void* const data = c10::alloc_cpu(size);
    const std::uint64_t now = live += malloc_usable_size(data);
    std::uint64_t before = peak;
    while (before < now && !peak.compare_exchange_weak(before, now)) {
    }
    return {data, data, &free, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free; }

  static inline std::atomic<std::uint64_t> live = 0, peak = 0;

 private:
  static void free(void* data) {
    live -= malloc_usable_size(data);
    c10::free_cpu(data);
  }
};

}  // namespace

void count_tensor_bytes() {
  static auto* const allocator = new CountingAllocator;  // tensors may outlive all else
  c10::SetCPUAllocator(allocator);
}

std::uint64_t live_tensor_bytes() { return CountingAllocator::live; }
std::uint64_t peak_tensor_bytes() { return CountingAllocator::peak; }
void forget_tensor_peak() { CountingAllocator::peak = CountingAllocator::live.load(); }

}  // namespace lockstep
