// Batches as tensors, in the order a plan says. Sets that are slow to read (pictures to decode) are
// read ahead by background threads into the very tensor that is handed out; others are read on the
// spot, in one pass. What a batch holds does not depend on threads.
#pragma once

#include <torch/torch.h>

#include <deque>
#include <functional>

#include "data/dataset.h"
#include "data/reader_pool.h"

namespace lockstep {

struct Batch {
  torch::Tensor x;  // fp32, or int64 for tokens: samples, then the set's shape
  torch::Tensor y;  // int64, classes: samples, then the shape of a sample's labels
};

// What batch number n is to hold.
struct Picks {
  std::vector<std::uint32_t> indices;  // none: an empty batch
  std::uint64_t variation = 0;         // see Dataset::read
};

// Belongs to one thread; set and pool outlive it.
class Loader {
 public:
  // `picks` is called on the caller's thread, for numbers < `end` only. Without a pool nothing is
  // read ahead.
  Loader(const Dataset&, std::function<Picks(std::uint64_t)> picks, std::uint64_t end,
         ReaderPool* pool = nullptr, int ahead = 2);
  ~Loader();
  Loader(const Loader&) = delete;

  // Any number < end; reading ahead pays off when they come one after the other. Blocks the OS
  // thread while pictures are still being decoded, and decodes along. Errors of reading surface
  // here.
  Batch batch(std::uint64_t number);

 private:
  struct Ahead {
    std::uint64_t number;
    std::shared_ptr<ReadJob> job;
    Batch batch;
  };
  Ahead start(std::uint64_t number);

  const Dataset& set_;
  std::function<Picks(std::uint64_t)> picks_;
  std::uint64_t end_;
  ReaderPool* pool_;
  std::size_t ahead_;
  std::deque<Ahead> started_;  // consecutive numbers
};

}  // namespace lockstep
