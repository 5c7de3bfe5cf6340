#include "transport/deaths.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "core/error.h"

namespace lockstep {

Deaths::Deaths(int ranks)
    : dead_(ranks), left_(ranks), reasons_(ranks), event_fd_(eventfd(0, EFD_CLOEXEC)) {
  if (event_fd_ < 0) throw_errno("eventfd");
}

Deaths::~Deaths() { close(event_fd_); }

void Deaths::report(int rank, const std::string& reason) {
  std::lock_guard lock(mutex_);
  if (dead_[rank].load()) return;
  reasons_[rank] = reason;
  int nobody = -1;
  first_.compare_exchange_strong(nobody, rank);
  dead_[rank].store(true, std::memory_order_release);
  count_.fetch_add(1, std::memory_order_release);
  eventfd_write(event_fd_, 1);
}

std::vector<int> Deaths::list() const {
  std::vector<int> ranks;
  for (int r = 0; r < static_cast<int>(dead_.size()); ++r)
    if (dead(r)) ranks.push_back(r);
  return ranks;
}

void Deaths::blame(Blame blame) {
  std::lock_guard lock(mutex_);
  blame_ = blame;
}

Blame Deaths::blame() const {
  std::lock_guard lock(mutex_);
  return blame_;
}

std::string Deaths::reason(int rank) const {
  std::lock_guard lock(mutex_);
  return reasons_[rank];
}

}  // namespace lockstep
