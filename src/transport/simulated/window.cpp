#include "transport/simulated/window.h"

#include <algorithm>
#include <numeric>

#include "core/zero_pages.h"
#include "transport/channels.h"
#include "transport/failure.h"
#include "transport/simulated/transport.h"

namespace lockstep {

namespace {

// Where the members meet on one lane.
struct Meeting {
  explicit Meeting(std::size_t members) : who(members), arrivals(members) {
    words[0].resize(members);
    words[1].resize(members);
  }

  std::vector<SimulatedTransport*> who;  // null: has not used it yet
  std::vector<std::uint64_t> arrivals;   // how many rounds each member came to
  // By round, odd or even: nobody enters round n + 2 before all have left round n.
  std::vector<Window::Words> words[2];
};

}  // namespace

// What the members of one window share, until the last of them has closed it.
struct SimulatedMemory {
  explicit SimulatedMemory(std::size_t members) : owned(members), of(members) {}

  Meeting& meeting(int lane) { return meetings.try_emplace(lane, of.size()).first->second; }

  std::vector<std::unique_ptr<ZeroPages>> owned;
  std::vector<Bytes> of;            // by member
  std::map<int, Meeting> meetings;  // by lane
};

class SimulatedWindow final : public Window {
 public:
  SimulatedWindow(SimulatedWindows& all, SimulatedTransport& who, std::vector<int> members,
                  std::shared_ptr<SimulatedMemory> memory)
      : all_(all),
        who_(who),
        members_(std::move(members)),
        memory_(std::move(memory)),
        meeting_(memory_->meeting(who.lane())),
        index_(index_of(who.rank())) {
    for (const int m : members_) reaches_all_ &= near(m);
    meeting_.who[index_] = &who;
  }

  ~SimulatedWindow() override { std::erase(all_.open_[who_.rank()], this); }

  // This lane opened the window.
  void own(std::size_t bytes) {
    Bytes& memory = memory_->of[index_] = {nullptr, bytes};
    if (!who_.world().cluster.hollow_windows)
      memory = (memory_->owned[index_] = std::make_unique<ZeroPages>(bytes))->bytes();
    all_.open_[who_.rank()].push_back(this);
  }

  // As another lane uses it. Lives as long as this.
  SimulatedWindow& on(SimulatedTransport& who) {
    if (&who == &who_) return *this;
    auto& view = views_[who.lane()];
    if (!view) view = std::make_unique<SimulatedWindow>(all_, who, members_, memory_);
    return *view;
  }

  std::span<const int> members() const override { return members_; }
  bool reaches_all() const override { return reaches_all_; }
  Bytes mine() const override { return memory_->of[index_]; }
  Bytes of(int rank) const override { return near(rank) ? memory_->of[index_of(rank)] : Bytes{}; }
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
    const std::uint64_t round = ++meeting_.arrivals[index_];
    words()[index_] = mine;
    bool all_here = true;
    for (std::size_t i = 0; i < members_.size(); ++i)
      while (meeting_.arrivals[i] < round) {
        all_here = false;
        if (who_.world().fate(members_[i]).gone) throw gone(members_[i], channels::kMeeting);
        if (who_.now() >= deadline.at) throw too_late(members_[i], who_.rank(), channels::kMeeting);
        who_.sleep_among(members_, deadline.at);
      }
    if (!all_here) return;
    for (auto* other : meeting_.who)  // they sleep for me, the last
      if (other != &who_) other->actor().wake();
  }

 private:
  bool near(int rank) const { return who_.host_of(rank) == who_.host_of(who_.rank()); }
  std::size_t index_of(int rank) const {
    return std::lower_bound(members_.begin(), members_.end(), rank) - members_.begin();
  }
  std::vector<Words>& words() const { return meeting_.words[meeting_.arrivals[index_] % 2]; }

  TransportError gone(int member, Tag tag) {
    const TransportError error = who_.world().gone_error(member, who_.rank(), tag);
    who_.world().blame(who_.rank(), blame_of(error));
    return error;
  }

  SimulatedWindows& all_;
  SimulatedTransport& who_;
  const std::vector<int> members_;
  const std::shared_ptr<SimulatedMemory> memory_;
  Meeting& meeting_;
  const std::size_t index_;
  bool reaches_all_ = true;
  std::map<int, std::unique_ptr<SimulatedWindow>> views_;  // by lane
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
  auto& slot = memories_[{opening, number}];
  auto memory = slot.lock();
  if (!memory) slot = memory = std::make_shared<SimulatedMemory>(ranks.size());
  auto window = std::make_unique<SimulatedWindow>(*this, who, std::move(ranks), std::move(memory));
  window->own(bytes);
  window->come({}, who.patience());
  return window;
}

Window* SimulatedWindows::at(SimulatedTransport& who, const void* address) {
  for (SimulatedWindow* w : open_[who.rank()]) {
    const Bytes m = w->mine();
    if (m.data && address >= m.data && address < m.data + m.size) return &w->on(who);
  }
  return nullptr;
}

}  // namespace lockstep
