#include "transport/simulated_window.h"

#include <algorithm>
#include <numeric>

#include "core/zero_pages.h"
#include "transport/failure.h"
#include "transport/simulated_transport.h"

namespace lockstep {

// What the members of one window share, until the last of them has closed it.
struct SimulatedMeeting {
  explicit SimulatedMeeting(std::size_t members)
      : owned(members), memory(members), who(members), arrivals(members) {
    words[0].resize(members);
    words[1].resize(members);
  }

  std::vector<std::unique_ptr<ZeroPages>> owned;
  std::vector<Bytes> memory;
  std::vector<SimulatedTransport*> who;
  std::vector<std::uint64_t> arrivals;  // how many rounds each member came to
  // By round, odd or even: nobody enters round n + 2 before all have left round n.
  std::vector<Window::Words> words[2];
};

class SimulatedWindow final : public Window {
 public:
  SimulatedWindow(SimulatedWindows& all, SimulatedTransport& who, std::vector<int> members,
                  std::size_t bytes, std::shared_ptr<SimulatedMeeting> meeting)
      : all_(all),
        who_(who),
        members_(std::move(members)),
        meeting_(std::move(meeting)),
        index_(index_of(who.rank())) {
    for (const int m : members_) reaches_all_ &= near(m);
    Bytes& memory = meeting_->memory[index_] = {nullptr, bytes};
    if (!who.world().cluster.hollow_windows)
      memory = (meeting_->owned[index_] = std::make_unique<ZeroPages>(bytes))->bytes();
    meeting_->who[index_] = &who;
    all_.open_[&who_].push_back(this);
  }

  ~SimulatedWindow() override { std::erase(all_.open_[&who_], this); }

  std::span<const int> members() const override { return members_; }
  bool reaches_all() const override { return reaches_all_; }
  Bytes mine() const override { return meeting_->memory[index_]; }
  Bytes of(int rank) const override {
    return near(rank) ? meeting_->memory[index_of(rank)] : Bytes{};
  }
  Words said(int rank) const override { return words()[index_of(rank)]; }

  int meet(const Words& mine) override {
    come(mine, who_.patience());
    who_.pass(who_.world().cluster.local_latency_s);
    for (std::size_t i = 0; i < members_.size(); ++i)
      if (words()[i] != mine) return members_[i];
    return -1;
  }

  void moved(int, Tag, std::size_t read, std::size_t written) override {
    who_.pass(static_cast<double>(read + written) /
              who_.world().cluster.local_bandwidth_bytes_per_s);
  }

  // Returns when all members have come.
  void come(const Words& mine, Deadline deadline) {
    const std::uint64_t round = ++meeting_->arrivals[index_];
    words()[index_] = mine;
    bool all_here = true;
    for (std::size_t i = 0; i < members_.size(); ++i)
      while (meeting_->arrivals[i] < round) {
        all_here = false;
        const Tag tag{Purpose::control, 0};
        if (who_.world().fate(members_[i]).gone) throw gone(members_[i], tag);
        if (who_.now() >= deadline.at) throw too_late(members_[i], who_.rank(), tag);
        who_.sleep_among(members_, deadline.at);
      }
    if (!all_here) return;
    for (auto* other : meeting_->who)  // they sleep for me, the last
      if (other != &who_) other->actor().wake();
  }

 private:
  bool near(int rank) const { return who_.host_of(rank) == who_.host_of(who_.rank()); }
  std::size_t index_of(int rank) const {
    return std::lower_bound(members_.begin(), members_.end(), rank) - members_.begin();
  }
  std::vector<Words>& words() const { return meeting_->words[meeting_->arrivals[index_] % 2]; }

  TransportError gone(int member, Tag tag) {
    const TransportError error = who_.world().gone_error(member, who_.rank(), tag);
    who_.world().blame(who_.rank(), blame_of(error));
    return error;
  }

  SimulatedWindows& all_;
  SimulatedTransport& who_;
  const std::vector<int> members_;
  const std::shared_ptr<SimulatedMeeting> meeting_;
  const std::size_t index_;
  bool reaches_all_ = true;
};

std::unique_ptr<Window> SimulatedWindows::open(SimulatedTransport& who, std::size_t bytes,
                                               std::span<const int> members) {
  std::vector<int> ranks(members.begin(), members.end());
  if (ranks.empty()) {
    ranks.resize(who.size());
    std::iota(ranks.begin(), ranks.end(), 0);
  }
  const Opening opening{who.lane(), ranks};
  const int number = opened_[{who.rank(), opening}]++;
  auto& slot = meetings_[{opening, number}];
  auto meeting = slot.lock();
  if (!meeting) slot = meeting = std::make_shared<SimulatedMeeting>(ranks.size());
  auto window =
      std::make_unique<SimulatedWindow>(*this, who, std::move(ranks), bytes, std::move(meeting));
  window->come({}, who.patience());
  return window;
}

Window* SimulatedWindows::at(const SimulatedTransport& who, const void* address) {
  for (SimulatedWindow* w : open_[&who]) {
    const Bytes m = w->mine();
    if (m.data && address >= m.data && address < m.data + m.size) return w;
  }
  return nullptr;
}

}  // namespace lockstep
