#include "transport/loopback_window.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "core/zero_pages.h"
#include "transport/awake_clock.h"
#include "transport/channels.h"
#include "transport/failure.h"

namespace lockstep {

namespace {

// Where the members meet on one lane.
struct Meeting {
  explicit Meeting(std::size_t members) : arrivals(members), words(members) {}

  std::vector<std::uint64_t> arrivals;  // how many rounds each member came to
  std::vector<Window::Words> words;
};

}  // namespace

// What the members of one window share; guarded by LoopbackWindows::mutex_.
struct LoopbackMemory {
  explicit LoopbackMemory(std::size_t members) : of(members) {}

  Meeting& meeting(int lane) { return meetings.try_emplace(lane, of.size()).first->second; }

  std::vector<Bytes> of;            // by member
  std::map<int, Meeting> meetings;  // by lane
};

class LoopbackWindow final : public Window {
 public:
  // Called under the mutex, as on().
  LoopbackWindow(LoopbackWindows& all, Transport& who, int lane, std::vector<int> members,
                 std::shared_ptr<LoopbackMemory> memory)
      : all_(all),
        who_(who),
        lane_(lane),
        members_(std::move(members)),
        memory_(std::move(memory)),
        meeting_(memory_->meeting(lane)),
        index_(index_of(who.rank())) {
    for (const int m : members_) reaches_all_ &= near(m);
  }

  ~LoopbackWindow() override {
    if (!owned_) return;
    std::lock_guard lock(all_.mutex_);
    std::erase(all_.open_[who_.rank()], this);
  }

  // This lane opened the window.
  void own(std::size_t bytes) {
    owned_.emplace(bytes);
    memory_->of[index_] = owned_->bytes();
    all_.open_[who_.rank()].push_back(this);
  }

  // As another lane uses it. Lives as long as this.
  LoopbackWindow& on(Transport& who, int lane) {
    if (lane == lane_) return *this;
    auto& view = views_[lane];
    if (!view) view = std::make_unique<LoopbackWindow>(all_, who, lane, members_, memory_);
    return *view;
  }

  std::span<const int> members() const override { return members_; }
  bool reaches_all() const override { return reaches_all_; }
  Bytes mine() const override { return memory_->of[index_]; }
  Bytes of(int rank) const override { return near(rank) ? memory_->of[index_of(rank)] : Bytes{}; }
  Words said(int rank) const override { return words_[index_of(rank)]; }

  int meet(const Words& words) override {
    Countdown time(who_.patience_seconds());
    std::unique_lock lock(all_.mutex_);
    meeting_.words[index_] = words;
    come(lock, time);
    words_ = meeting_.words;
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
    const std::uint64_t round = ++meeting_.arrivals[index_];
    all_.changed_.notify_all();
    for (std::size_t i = 0; i < members_.size(); ++i)
      while (meeting_.arrivals[i] < round) {
        if (all_.left_.count({members_[i], lane_}))
          throw departed(members_[i], who_.rank(), channels::kMeeting);
        if (time.left() <= 0) throw too_late(members_[i], who_.rank(), channels::kMeeting);
        all_.changed_.wait_for(lock, std::chrono::duration<double>(time.nap()));
      }
  }

  LoopbackWindows& all_;
  Transport& who_;
  const int lane_;
  const std::vector<int> members_;
  const std::shared_ptr<LoopbackMemory> memory_;
  Meeting& meeting_;
  const std::size_t index_;
  std::optional<ZeroPages> owned_;
  std::vector<Words> words_;
  bool reaches_all_ = true;
  std::map<int, std::unique_ptr<LoopbackWindow>> views_;  // by lane
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
    auto& slot = memories_[{opening, number}];
    auto memory = slot.lock();
    if (!memory) slot = memory = std::make_shared<LoopbackMemory>(ranks.size());
    window = std::make_unique<LoopbackWindow>(*this, who, lane, ranks, std::move(memory));
    window->own(bytes);
  }
  window->meet({});
  return window;
}

Window* LoopbackWindows::at(Transport& who, int lane, const void* address) {
  std::lock_guard lock(mutex_);
  for (LoopbackWindow* w : open_[who.rank()]) {
    const Bytes m = w->mine();
    if (address >= m.data && address < m.data + m.size) return &w->on(who, lane);
  }
  return nullptr;
}

void LoopbackWindows::leave(int rank, int lane) {
  std::lock_guard lock(mutex_);
  left_.insert({rank, lane});
  changed_.notify_all();
}

}  // namespace lockstep
