// Buffers lent out again and again: mapping and faulting in a large block costs more than filling
// it. Belongs to one thread.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace lockstep {

struct PoolBlock {
  std::unique_ptr<std::byte[]> data;
  std::size_t capacity = 0;
};

class ScratchPool {
 public:
  // At least `bytes` large; contents undefined.
  PoolBlock take(std::size_t bytes);
  void give_back(PoolBlock&&);

 private:
  std::vector<PoolBlock> free_;
};

}  // namespace lockstep
