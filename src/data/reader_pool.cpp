#include "data/reader_pool.h"

#include <algorithm>

#include "core/error.h"

namespace lockstep {

ReadJob::ReadJob(const Dataset& set, std::vector<std::uint32_t> indices, std::uint64_t variation,
                 float* x)
    : set_(set),
      indices_(std::move(indices)),
      variation_(variation),
      x_(x),
      each_time_(set.slow() ? 1 : std::max<std::size_t>(1, indices_.size())) {
  for (std::uint32_t index : indices_)
    if (index >= set.size())
      throw InternalError(fmt::format("sample {} of a set of {}", index, set.size()));
}

void ReadJob::read(std::size_t first, std::size_t count) {
  set_.read(std::span(indices_).subspan(first, count), variation_, x_ + first * set_.values());
}

void ReadJob::work() {
  {
    const std::lock_guard lock(mutex_);
    ++readers_;
  }
  try {
    for (std::size_t at; (at = next_.fetch_add(each_time_)) < indices_.size();)
      read(at, each_time_);
  } catch (const std::exception&) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::current_exception();
    next_ = indices_.size();
  }
  const std::lock_guard lock(mutex_);
  if (--readers_ == 0) idle_.notify_all();
}

void ReadJob::finish() {
  work();
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return readers_ == 0; });
  if (error_) std::rethrow_exception(error_);
}

void ReadJob::abandon() {
  next_ = indices_.size();
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return readers_ == 0; });
}

ReaderPool::ReaderPool(int threads) {
  for (int t = 0; t < threads; ++t) threads_.emplace_back([this] { run(); });
}

ReaderPool::~ReaderPool() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    for (const auto& job : queue_) job->abandon();
    queue_.clear();
  }
  changed_.notify_all();
}

void ReaderPool::add(std::shared_ptr<ReadJob> job) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(job));
  }
  changed_.notify_all();
}

void ReaderPool::run() {
  for (;;) {
    std::shared_ptr<ReadJob> job;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return closing_ || !queue_.empty(); });
      if (closing_) return;
      job = queue_.front();
    }
    job->work();
    const std::lock_guard lock(mutex_);  // nothing is left to take: whoever sees it first says so
    if (!queue_.empty() && queue_.front() == job) queue_.pop_front();
  }
}

}  // namespace lockstep
