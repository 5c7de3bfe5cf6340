#include "transport/loopback_window.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "core/zero_pages.h"
#include "transport/awake_clock.h"
#include "transport/failure.h"

namespace lockstep {

// What the members of one window share; guarded by LoopbackWindows::mutex_.
struct LoopbackMeeting {
  explicit LoopbackMeeting(std::size_t members)
      : memory(members), arrivals(members), words(members) {}

  std::vector<Bytes> memory;
  std::vector<std::uint64_t> arrivals;  // how many rounds each member came to
  std::vector<Window::Words> words;
};

class LoopbackWindow final : public Window {
 public:
  LoopbackWindow(LoopbackWindows& all, Transport& who, int lane, std::vector<int> members,
                 std::size_t bytes, std::shared_ptr<LoopbackMeeting> meeting)
      : all_(all),
        who_(who),
        lane_(lane),
        members_(std::move(members)),
        memory_(bytes),
        meeting_(std::move(meeting)),
        index_(index_of(who.rank())) {
    for (const int m : members_) reaches_all_ &= near(m);
    meeting_->memory[index_] = memory_.bytes();
  }

  ~LoopbackWindow() override {
    std::lock_guard lock(all_.mutex_);
    std::erase(all_.open_[{who_.rank(), lane_}], this);
  }

  std::span<const int> members() const override { return members_; }
  bool reaches_all() const override { return reaches_all_; }
  Bytes mine() const override { return meeting_->memory[index_]; }
  Bytes of(int rank) const override {
    return near(rank) ? meeting_->memory[index_of(rank)] : Bytes{};
  }
  Words said(int rank) const override { return words_[index_of(rank)]; }

  int meet(const Words& words) override {
    Countdown time(who_.patience_seconds());
    std::unique_lock lock(all_.mutex_);
    meeting_->words[index_] = words;
    come(lock, time);
    words_ = meeting_->words;
    come(lock, time);  // nobody's words may be overwritten before all have read them
    for (std::size_t i = 0; i < members_.size(); ++i)
      if (words_[i] != words) return members_[i];
    return -1;
  }

 private:
  bool near(int rank) const { return who_.host_of(rank) == who_.host_of(who_.rank()); }
  std::size_t index_of(int rank) const {
    return std::lower_bound(members_.begin(), members_.end(), rank) - members_.begin();
  }

  void come(std::unique_lock<std::mutex>& lock, Countdown& time) {
    const std::uint64_t round = ++meeting_->arrivals[index_];
    all_.changed_.notify_all();
    for (std::size_t i = 0; i < members_.size(); ++i)
      while (meeting_->arrivals[i] < round) {
        const Tag meeting{Purpose::control, 0};
        if (all_.left_.count({members_[i], lane_}))
          throw departed(members_[i], who_.rank(), meeting);
        if (time.left() <= 0) throw too_late(members_[i], who_.rank(), meeting);
        all_.changed_.wait_for(lock, std::chrono::duration<double>(time.nap()));
      }
  }

  LoopbackWindows& all_;
  Transport& who_;
  const int lane_;
  const std::vector<int> members_;
  const ZeroPages memory_;
  const std::shared_ptr<LoopbackMeeting> meeting_;
  const std::size_t index_;
  std::vector<Words> words_;
  bool reaches_all_ = true;
};

std::unique_ptr<Window> LoopbackWindows::open(Transport& who, int lane, std::size_t bytes,
                                              std::span<const int> members) {
  std::vector<int> ranks(members.begin(), members.end());
  if (ranks.empty()) {
    ranks.resize(who.size());
    std::iota(ranks.begin(), ranks.end(), 0);
  }
  const Opening opening{lane, ranks};
  std::unique_ptr<LoopbackWindow> window;
  {
    std::lock_guard lock(mutex_);
    const int number = opened_[{who.rank(), opening}]++;
    auto& slot = meetings_[{opening, number}];
    auto meeting = slot.lock();
    if (!meeting) slot = meeting = std::make_shared<LoopbackMeeting>(ranks.size());
    window = std::make_unique<LoopbackWindow>(*this, who, lane, ranks, bytes, meeting);
    open_[{who.rank(), lane}].push_back(window.get());
  }
  window->meet({});
  return window;
}

Window* LoopbackWindows::at(int rank, int lane, const void* address) {
  std::lock_guard lock(mutex_);
  for (Window* w : open_[{rank, lane}]) {
    const Bytes m = w->mine();
    if (address >= m.data && address < m.data + m.size) return w;
  }
  return nullptr;
}

void LoopbackWindows::leave(int rank, int lane) {
  std::lock_guard lock(mutex_);
  left_.insert({rank, lane});
  changed_.notify_all();
}

}  // namespace lockstep
