#include "transport/shm_window.h"

#include <unistd.h>

#include <algorithm>
#include <numeric>

#include "transport/awake_clock.h"
#include "transport/backoff.h"
#include "transport/futex.h"

namespace lockstep {
namespace {

constexpr Tag kMeeting{Purpose::control, 0xfffff0};
constexpr double kLookSeconds = 0.01;  // how often a sleeper looks who died

// One member's line. Words of this meeting and the last: a member can be one meeting ahead, not
// two.
struct alignas(64) MeetingPlace {
  std::atomic<std::uint32_t> arrived;  // how many meetings this member came to
  std::atomic<std::uint32_t> sleepers;
  Window::Words words[2];
};
static_assert(sizeof(MeetingPlace) == 64);

constexpr std::size_t kHead = 4096;  // the line, in a page of its own so that the data is aligned

struct Offer {
  std::int32_t pid = 0, fd = -1;
  std::uint64_t bytes = 0;
};

}  // namespace

class ShmWindow final : public Window {
 public:
  ShmWindow(const ShmWindowOwner& owner, std::size_t bytes, std::vector<int> members)
      : owner_(owner),
        members_(std::move(members)),
        maps_(owner.transport.size()),
        offers_(maps_.size()) {
    const int me = owner_.transport.rank();
    maps_[me] = SharedMemory(kHead + bytes);
    std::vector<int> near;
    for (const int m : members_)
      if (owner_.transport.host_of(m) == owner_.transport.host_of(me)) near.push_back(m);
    reaches_all_ = near.size() == members_.size();
    introduce(near, bytes);
    for (const int m : near)
      if (m != me) others_.push_back({m, &place(m)});
    mine_ = &place(me);
    mine_bytes_ = of(me);
    meet({});  // until all have mapped all
    owner_.open.add(this);
  }

  ~ShmWindow() override { owner_.open.remove(this); }

  std::span<const int> members() const override { return members_; }
  bool reaches_all() const override { return reaches_all_; }
  Bytes mine() const override { return mine_bytes_; }
  Bytes of(int rank) const override {
    const SharedMemory& map = maps_[rank];
    return map.data() ? Bytes{map.data() + kHead, map.size() - kHead} : Bytes{};
  }
  Words said(int rank) const override { return place(rank).words[round_ & 1]; }
  const Offer& my_offer() const { return offers_[owner_.transport.rank()]; }
  // Where a member's memory was offered; no descriptor: it is not mapped here.
  const Offer& offer_of(int rank) const { return offers_[rank]; }

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
    return *reinterpret_cast<MeetingPlace*>(maps_[rank].data());
  }

  bool came(const MeetingPlace& other) const {
    return static_cast<std::int32_t>(other.arrived.load(std::memory_order_acquire) - round_) >= 0;
  }

  // Every member on this host tells every other where its memory is.
  void introduce(const std::vector<int>& near, std::size_t bytes) {
    Transport& t = owner_.transport;
    Offer& mine = offers_[t.rank()];
    mine = {getpid(), maps_[t.rank()].fd(), bytes};
    std::vector<Pending> sends;
    for (const int m : near)
      if (m != t.rank()) sends.push_back(t.send(m, kMeeting, bytes_of(mine)));
    for (const int m : near)
      if (m != t.rank()) {
        Offer& theirs = offers_[m];
        t.wait(t.recv(m, kMeeting, bytes_of(theirs)));
        maps_[m] = SharedMemory(theirs.pid, theirs.fd, kHead + theirs.bytes, true);
      }
    for (Pending& send : sends) t.wait(send);
  }

  void wait_for(int rank, MeetingPlace& other) {
    Backoff backoff(owner_.host.crowded());
    while (!came(other))
      if (backoff.pause()) return sleep_for(rank, other);
  }

  // Not likely near: looks at the clock and who died, moves messages, and sleeps in between.
  void sleep_for(int rank, MeetingPlace& other) {
    Countdown time(owner_.transport.patience_seconds());
    while (!came(other)) {
      owner_.progress();
      owner_.host.look_for_deaths();
      const ShmSeat& seat = owner_.host.seat(owner_.lane, rank);
      if (owner_.host.deaths().dead(rank) || seat.state.load() == ShmSeat::left) {
        if (came(other)) return;
        const TransportError error = shm_gone(owner_.host, seat, rank, kMeeting);
        owner_.host.deaths().blame(blame_of(error));
        throw error;
      }
      const double left = time.left();
      if (left <= 0) throw too_late(rank, owner_.transport.rank(), kMeeting);
      const std::uint32_t seen = other.arrived.load();
      other.sleepers.fetch_add(1);
      sleeper_fence();
      if (!came(other)) futex_wait(other.arrived, seen, std::min(left, kLookSeconds));
      other.sleepers.fetch_sub(1);
    }
  }

  const ShmWindowOwner owner_;
  const std::vector<int> members_;
  std::vector<SharedMemory> maps_;  // by rank; empty where not mapped
  std::vector<Offer> offers_;       // by rank
  std::vector<std::pair<int, MeetingPlace*>> others_;
  MeetingPlace* mine_ = nullptr;
  Bytes mine_bytes_;
  const bool sleeper_pays_ = owner_.host.sleeper_pays();
  std::uint32_t round_ = 0;
  bool reaches_all_ = false;
};

Window* ShmWindows::at(const void* address) const {
  for (ShmWindow* window : open_) {
    const Bytes m = window->mine();
    if (address >= m.data && address < m.data + m.size) return window;
  }
  return nullptr;
}

std::optional<ShmReference> ShmWindows::reference_to(ConstBytes bytes, int peer) const {
  for (const ShmWindow* window : open_) {
    const Bytes m = window->mine();
    if (bytes.data < m.data || bytes.data + bytes.size > m.data + m.size) continue;
    if (window->offer_of(peer).fd < 0) return {};
    const Offer& mine = window->my_offer();
    return ShmReference{mine.pid, mine.fd, static_cast<std::uint64_t>(bytes.data - m.data)};
  }
  return {};
}

void ShmWindows::take(int peer, ShmReference from, std::size_t size,
                      const std::function<void(ConstBytes)>& take) const {
  for (const ShmWindow* window : open_) {
    const Offer& theirs = window->offer_of(peer);
    if (theirs.fd == from.fd && theirs.pid == from.pid && from.offset + size <= theirs.bytes)
      return take({window->of(peer).data + from.offset, size});
  }
  const SharedMemory closed(from.pid, from.fd, kHead + from.offset + size, false);
  take({closed.data() + kHead + from.offset, size});
}

std::unique_ptr<Window> open_shm_window(const ShmWindowOwner& owner, std::size_t bytes,
                                        std::span<const int> members) {
  std::vector<int> ranks(members.begin(), members.end());
  if (ranks.empty()) {
    ranks.resize(owner.transport.size());
    std::iota(ranks.begin(), ranks.end(), 0);
  }
  return std::make_unique<ShmWindow>(owner, bytes, std::move(ranks));
}

}  // namespace lockstep
