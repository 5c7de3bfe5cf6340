#include "transport/shm/window.h"

#include <unistd.h>

#include <algorithm>
#include <map>

#include "transport/awake_clock.h"
#include "transport/channels.h"

namespace lockstep {
namespace {

using channels::kMeeting;
constexpr double kLookSeconds = 0.01;  // how often a sleeper looks who died

// The line of one member's lane. Words of this meeting and the last: a member can be one meeting
// ahead, not two.
struct alignas(64) MeetingPlace {
  std::atomic<std::uint32_t> arrived;  // how many meetings this member came to
  std::atomic<std::uint32_t> sleepers;
  Window::Words words[2];
};
static_assert(sizeof(MeetingPlace) == 64);

// The lines by lane, in a page of their own so that the data is aligned.
constexpr std::size_t kHead = 4096;
static_assert(Lanes{Lanes::kMostBackground}.count() * sizeof(MeetingPlace) <= kHead);

struct Offer {
  std::int32_t pid = 0, fd = -1;
  std::uint64_t bytes = 0;
};

}  // namespace

// What the lanes of a rank share of a window: its members' memory.
struct ShmMapping {
  std::vector<int> members;
  std::vector<SharedMemory> maps;  // by rank; empty where not mapped
  std::vector<Offer> offers;       // by rank; no descriptor where not mapped
  int rank = 0;
  bool reaches_all = false;

  Bytes of(int member) const {
    const SharedMemory& map = maps[member];
    return map.data() ? Bytes{map.data() + kHead, map.size() - kHead} : Bytes{};
  }
  bool holds(const void* address) const { return of(rank).holds(address); }
  bool offered(int peer, int pid, int fd) const {
    return offers[peer].fd == fd && offers[peer].pid == pid;
  }
};

namespace {

// Every member on this host tells every other where its memory is.
std::shared_ptr<const ShmMapping> mapped(Transport& t, std::size_t bytes,
                                         std::vector<int> members) {
  auto mapping = std::make_shared<ShmMapping>();
  ShmMapping& m = *mapping;
  m.members = std::move(members);
  m.maps.resize(t.size());
  m.offers.resize(t.size());
  m.rank = t.rank();
  m.maps[m.rank] = SharedMemory(kHead + bytes);
  Offer& mine = m.offers[m.rank];
  mine = {getpid(), m.maps[m.rank].fd(), bytes};
  std::vector<int> near;  // others of this host
  for (const int member : m.members)
    if (member != m.rank && t.host_of(member) == t.host_of(m.rank)) near.push_back(member);
  m.reaches_all = near.size() + 1 == m.members.size();
  std::vector<Pending> sends;
  for (const int member : near) sends.push_back(t.send(member, kMeeting, bytes_of(mine)));
  for (const int member : near) {
    Offer& theirs = m.offers[member];
    t.wait(t.recv(member, kMeeting, bytes_of(theirs)));
    m.maps[member] = SharedMemory(theirs.pid, theirs.fd, kHead + theirs.bytes, true);
  }
  for (Pending& send : sends) t.wait(send);
  return mapping;
}

}  // namespace

class ShmWindow final : public Window {
 public:
  // `opened`: by this lane, whose list the window is then in.
  ShmWindow(ShmWindows& lane, std::shared_ptr<const ShmMapping> mapping, bool opened)
      : lane_(lane), mapping_(std::move(mapping)), opened_(opened) {
    for (const int member : mapping_->members)
      if (member != mapping_->rank && mapping_->maps[member].data())
        others_.push_back({member, &place(member)});
    // This lane may have met here before: its line goes on counting.
    round_ = mine_->arrived.load();
    if (!opened_) return;
    meet({});  // until all have mapped all
    lane_.open_.push_back(this);
    lane_.host_.windows().add(*this);
  }

  ~ShmWindow() override {
    if (!opened_) return;
    std::erase(lane_.open_, this);
    lane_.host_.windows().remove(*this);
  }

  std::span<const int> members() const override { return mapping_->members; }
  bool reaches_all() const override { return mapping_->reaches_all; }
  Bytes mine() const override { return mine_bytes_; }
  Bytes of(int rank) const override { return mapping_->of(rank); }
  Words said(int rank) const override { return place(rank).words[round_ & 1]; }
  const std::shared_ptr<const ShmMapping>& mapping() const { return mapping_; }
  // As another lane uses it. Lives as long as this. Called under the lock of ShmOpenWindows.
  ShmWindow& on(ShmWindows& lane) {
    auto& view = views_[lane.lane_];
    if (!view) view = std::make_unique<ShmWindow>(lane, mapping_, false);
    return *view;
  }

  int meet(const Words& words) override {
    ++round_;
    MeetingPlace& mine = *mine_;
    mine.words[round_ & 1] = words;
    mine.arrived.store(round_, std::memory_order_release);
    publisher_fence(sleeper_pays_);
    if (mine.sleepers.load(std::memory_order_relaxed)) futex_wake_all(mine.arrived);
    int odd = -1;
    for (const auto& [rank, other] : others_) {
      if (!came(*other)) wait_for(rank, *other);
      if (odd < 0 && other->words[round_ & 1] != words) odd = rank;
    }
    return odd;
  }

 private:
  MeetingPlace& place(int rank) const {
    return reinterpret_cast<MeetingPlace*>(mapping_->maps[rank].data())[lane_.lane_];
  }

  bool came(const MeetingPlace& other) const {
    return static_cast<std::int32_t>(other.arrived.load(std::memory_order_acquire) - round_) >= 0;
  }

  void wait_for(int rank, MeetingPlace& other) {
    Backoff backoff(lane_.host_.crowded());
    while (!came(other))
      if (backoff.pause()) return sleep_for(rank, other);
  }

  // Not likely near: looks at the clock and who died, moves messages, and sleeps in between.
  void sleep_for(int rank, MeetingPlace& other) {
    ShmHost& host = lane_.host_;
    Countdown time(lane_.transport_.patience_seconds());
    while (!came(other)) {
      lane_.progress_();
      host.look_for_deaths();
      const ShmSeat& seat = host.seat(lane_.lane_, rank);
      if (host.deaths().dead(rank) || seat.state.load() == ShmSeat::left) {
        if (came(other)) return;
        const TransportError error = shm_gone(host, seat, rank, kMeeting);
        host.deaths().blame(blame_of(error));
        throw error;
      }
      const double left = time.left();
      if (left <= 0) throw too_late(rank, lane_.transport_.rank(), kMeeting);
      const std::uint32_t seen = other.arrived.load();
      other.sleepers.fetch_add(1);
      sleeper_fence();
      if (!came(other)) futex_wait(other.arrived, seen, std::min(left, kLookSeconds));
      other.sleepers.fetch_sub(1);
    }
  }

  ShmWindows& lane_;
  const std::shared_ptr<const ShmMapping> mapping_;
  const bool opened_;
  std::vector<std::pair<int, MeetingPlace*>> others_;
  MeetingPlace* const mine_ = &place(mapping_->rank);
  const Bytes mine_bytes_ = mapping_->of(mapping_->rank);
  const bool sleeper_pays_ = lane_.host_.sleeper_pays();
  std::uint32_t round_ = 0;
  std::map<int, std::unique_ptr<ShmWindow>> views_;  // by lane
};

void ShmOpenWindows::add(ShmWindow& window) {
  const std::lock_guard lock(mutex_);
  open_.push_back(&window);
}

void ShmOpenWindows::remove(ShmWindow& window) {
  const std::lock_guard lock(mutex_);
  std::erase(open_, &window);
}

template <class Is>
ShmWindow* ShmOpenWindows::first(Is is) const {
  const auto found = std::ranges::find_if(open_, [&](ShmWindow* w) { return is(*w->mapping()); });
  return found == open_.end() ? nullptr : *found;
}

Window* ShmOpenWindows::at(const void* address, ShmWindows& lane) const {
  const std::lock_guard lock(mutex_);
  ShmWindow* const window = first([&](const ShmMapping& m) { return m.holds(address); });
  return window ? &window->on(lane) : nullptr;
}

std::shared_ptr<const ShmMapping> ShmOpenWindows::holding(const void* address) const {
  const std::lock_guard lock(mutex_);
  ShmWindow* const window = first([&](const ShmMapping& m) { return m.holds(address); });
  return window ? window->mapping() : nullptr;
}

std::shared_ptr<const ShmMapping> ShmOpenWindows::offered_by(int peer, int pid, int fd) const {
  const std::lock_guard lock(mutex_);
  ShmWindow* const window = first([&](const ShmMapping& m) { return m.offered(peer, pid, fd); });
  return window ? window->mapping() : nullptr;
}

ShmWindows::ShmWindows(Transport& transport, ShmHost& host, int lane,
                       std::function<void()> progress)
    : transport_(transport), host_(host), lane_(lane), progress_(std::move(progress)) {}

std::unique_ptr<Window> ShmWindows::open(std::size_t bytes, std::span<const int> members) {
  return std::make_unique<ShmWindow>(
      *this, mapped(transport_, bytes, members_or_all(members, transport_.size())), true);
}

Window* ShmWindows::at(const void* address) {
  for (ShmWindow* window : open_)
    if (window->mine().holds(address)) return window;
  return host_.windows().at(address, *this);
}

std::optional<ShmReference> ShmWindows::reference_to(ConstBytes bytes, int peer) const {
  const auto mapping = host_.windows().holding(bytes.data);
  if (!mapping || mapping->offers[peer].fd < 0) return {};
  const Bytes mine = mapping->of(mapping->rank);
  if (bytes.data + bytes.size > mine.data + mine.size) return {};
  const Offer& offer = mapping->offers[mapping->rank];
  return ShmReference{offer.pid, offer.fd, static_cast<std::uint64_t>(bytes.data - mine.data)};
}

void ShmWindows::take(int peer, ShmReference from, std::size_t size,
                      const std::function<void(ConstBytes)>& take) const {
  const auto mapping = host_.windows().offered_by(peer, from.pid, from.fd);
  if (mapping && from.offset + size <= mapping->offers[peer].bytes)
    return take({mapping->of(peer).data + from.offset, size});
  const SharedMemory closed(from.pid, from.fd, kHead + from.offset + size, false);
  take({closed.data() + kHead + from.offset, size});
}

}  // namespace lockstep
