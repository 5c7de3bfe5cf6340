// Threads that read samples ahead of their use. They touch nothing but a job's own memory and a set
// that never changes, so what is read is the same however many there are; in simulation they run
// beside the one thread of all actors. One pool serves all ranks of a process.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "data/dataset.h"

namespace lockstep {

// One batch to read: threads take its samples one by one. A set that is quick to read is done in
// one go by whoever asks for it.
class ReadJob {
 public:
  // `x` and the set stay alive until finish() or abandon() has returned.
  ReadJob(const Dataset&, std::vector<std::uint32_t> indices, std::uint64_t variation, float* x);

  // Reads what is left together with the pool; returns, or rethrows what went wrong, when all is
  // done.
  void finish();
  // Returns when nobody reads any more. The rest is never read.
  void abandon();

  // For the pool: reads samples until none is left to take.
  void work();

 private:
  void read(std::size_t first, std::size_t count);

  const Dataset& set_;
  const std::vector<std::uint32_t> indices_;
  const std::uint64_t variation_;
  float* const x_;
  const std::size_t each_time_;  // samples to take
  std::atomic<std::size_t> next_{0};
  std::mutex mutex_;
  std::condition_variable idle_;
  int readers_ = 0;  // at work now
  std::exception_ptr error_;
};

class ReaderPool {
 public:
  explicit ReaderPool(int threads);
  // Abandons what is queued.
  ~ReaderPool();
  ReaderPool(const ReaderPool&) = delete;

  void add(std::shared_ptr<ReadJob>);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<ReadJob>> queue_;
  bool closing_ = false;
  std::vector<std::jthread> threads_;  // last: they end before the rest goes
};

}  // namespace lockstep
