// Memory that reads as zeros and takes up room only where it is touched: a window nobody uses costs
// nothing, and the state of an optimiser that steps a shard costs a shard.
#pragma once

#include <cstddef>
#include <span>

#include "core/bytes.h"

namespace lockstep {

class ZeroPages {
 public:
  explicit ZeroPages(std::size_t bytes);  // InternalError if the machine has none left
  ~ZeroPages();
  ZeroPages(const ZeroPages&) = delete;
  ZeroPages& operator=(const ZeroPages&) = delete;

  Bytes bytes() const { return {data_, size_}; }  // aligned to a page
  std::span<float> floats() const {
    return {reinterpret_cast<float*>(data_), size_ / sizeof(float)};
  }

 private:
  std::byte* data_;
  std::size_t size_;
};

}  // namespace lockstep
