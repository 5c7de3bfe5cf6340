#include "transport/routed.h"

#include <algorithm>

#include "transport/awake_clock.h"
#include "transport/failure.h"
#include "transport/operations.h"

namespace lockstep {
namespace {

// Nobody sends with this tag: a receive from anybody for it fails when nobody is left.
constexpr Tag kNobody{Purpose::control, 0xffffff};
// How often the side that nothing is awaited from is looked at while spinning.
constexpr int kGlance = 16;
constexpr int kSpins = 200;
// A sleep hears one side at once and the other when it ends: short while both have work open.
constexpr double kFirstSleepSeconds = 100e-6, kBusySleepSeconds = 500e-6, kSleepSeconds = 20e-3;

struct Side {
  std::unique_ptr<Transport> transport;
  int peers = 0;        // who are reached through it
  int open = 0;         // operations
  Request nobody_left;  // made when somebody waits for anybody
  std::optional<TransportError> end;

  // Is there nobody left to hear from?
  bool empty() {
    if (peers == 0 || end) return true;
    try {
      if (nobody_left.id == 0) nobody_left = transport->recv(kAnyRank, kNobody, {});
      transport->test(nobody_left);
    } catch (const TransportError& e) {
      end = e;
    }
    return end.has_value();
  }

  void progress() {
    if (peers > 0) (void)transport->probe(kAnyRank, kNobody);
  }
};

struct Operation {
  std::uint64_t id = 0;
  Side* side = nullptr;  // none: a receive from anybody that waits for its message
  Request inner;
  int peer = 0;
  Tag tag;
  Bytes into;
  Combine combine = nullptr;
};

class Routed final : public Transport {
 public:
  Routed(std::unique_ptr<Transport> near, std::unique_ptr<Transport> far, Doze doze)
      : doze_(std::move(doze)) {
    near_.transport = std::move(near);
    far_.transport = std::move(far);
    for (int r = 0; r < size(); ++r)
      if (r != rank()) ++side_of(r).peers;
  }

  ~Routed() override {
    if (used_) far_.progress();  // a lane that was never used tells nobody when it leaves
    near_.transport.reset();     // at once; the far side takes its time
  }

  int rank() const override { return near_.transport->rank(); }
  int size() const override { return near_.transport->size(); }
  int host_of(int rank) const override { return near_.transport->host_of(rank); }
  double now() const override { return near_.transport->now(); }
  double patience_seconds() const override { return near_.transport->patience_seconds(); }

  Request send(int to, Tag tag, ConstBytes bytes) override {
    check_peer(to, rank(), size(), "send to");
    Side& side = side_of(to);
    return add(side, side.transport->send(to, tag, bytes), to, tag);
  }

  Request recv(int from, Tag tag, Bytes into, Combine combine) override {
    if (from != kAnyRank) {
      check_peer(from, rank(), size(), "receive from");
      Side& side = side_of(from);
      return add(side, side.transport->recv(from, tag, into, combine), from, tag);
    }
    used_ = true;
    Operation& o = operations_.add();
    o.peer = from;
    o.tag = tag;
    o.into = into;
    o.combine = combine;
    from_anybody_.push_back(&o);
    return {o.id};
  }

  std::size_t wait_any(std::span<const Request> requests, Deadline deadline,
                       Arrival* arrival) override {
    double step = kFirstSleepSeconds;
    std::optional<Countdown> time;
    for (int turn = 0;; ++turn) {
      for (std::size_t i = 0; i < requests.size(); ++i)
        if (const auto ended = test(requests[i])) {
          if (arrival) *arrival = *ended;
          return i;
        }
      if (turn % kGlance == 0 || turn > kSpins) {
        near_.progress();
        far_.progress();
      }
      if (turn < kSpins) continue;
      near_.transport->dead_peers();  // looks who died, which test() doesn't
      const Operation& first = operations_.find(requests[0]);
      if (!time) time.emplace(deadline.at - now());
      const double left = time->left();
      if (left <= 0) throw too_late(first.peer, rank(), first.tag);
      const bool hears_near_late = far_.open > 0 || requests.size() > 1;
      const bool busy = !from_anybody_.empty() || (near_.open > 0 && hears_near_late);
      step = std::min(2 * step, busy ? kBusySleepSeconds : kSleepSeconds);
      if (requests.size() == 1 && first.side == &near_ && far_.open == 0) {
        if (const auto ended = wait_near(requests[0], std::min(left, step))) {
          if (arrival) *arrival = *ended;
          return 0;
        }
      } else {
        doze_(std::min(left, step));
      }
    }
  }

  std::optional<Arrival> test(Request request) override {
    Operation& o = operations_.find(request);
    if (!o.side) match();
    if (!o.side) {
      throw_if_nobody_is_left(o);
      return {};
    }
    try {
      const auto ended = o.side->transport->test(o.inner);
      if (ended) end(o);
      return ended;
    } catch (const TransportError&) {
      end(o);
      throw;
    }
  }

  std::optional<Arrival> probe(int from, Tag tag) override {
    if (from != kAnyRank) return side_of(from).transport->probe(from, tag);
    match();
    if (const auto found = near_.transport->probe(from, tag)) return found;
    return far_.transport->probe(from, tag);
  }

  bool cancel(Request request) override {
    Operation& o = operations_.find(request);
    const bool cancelled = !o.side || o.side->transport->cancel(o.inner);
    end(o);
    return cancelled;
  }

  Request bell() override { return add(near_, near_.transport->bell(), rank(), {}); }
  void ring() override {
    near_.transport->ring();
    far_.transport->ring();  // whose sleep it may be
  }

  std::vector<int> dead_peers() override {
    std::vector<int> all, near = near_.transport->dead_peers(), far = far_.transport->dead_peers();
    std::set_union(near.begin(), near.end(), far.begin(), far.end(), std::back_inserter(all));
    return all;
  }

  std::unique_ptr<Window> open_window(std::size_t bytes, std::span<const int> members) override {
    used_ = true;
    return near_.transport->open_window(bytes, members);
  }
  Window* window_at(const void* address) override { return near_.transport->window_at(address); }

 private:
  Side& side_of(int peer) { return host_of(peer) == host_of(rank()) ? near_ : far_; }

  Request add(Side& side, Request inner, int peer, Tag tag) {
    used_ = true;
    Operation& o = operations_.add();
    o.side = &side;
    o.inner = inner;
    o.peer = peer;
    o.tag = tag;
    ++side.open;
    return {o.id};
  }

  void end(Operation& o) {
    if (o.side)
      --o.side->open;
    else
      std::erase(from_anybody_, &o);
    operations_.end(o);
  }

  // Gives receives from anybody, in the order posted, to the side where a message is waiting.
  void match() {
    std::vector<std::uint32_t> waiting;  // a later receive must not overtake one for the same key
    std::erase_if(from_anybody_, [&](Operation* o) {
      const std::uint32_t key = o->tag.key();
      if (std::find(waiting.begin(), waiting.end(), key) != waiting.end()) return false;
      for (Side* side : {turn_ ? &near_ : &far_, turn_ ? &far_ : &near_}) {
        if (side->peers == 0) continue;
        const auto found = side->transport->probe(kAnyRank, o->tag);
        if (!found) continue;
        turn_ = !turn_;  // neither side starves the other
        o->inner = side->transport->recv(found->from, o->tag, o->into, o->combine);
        o->side = side;
        o->peer = found->from;
        ++side->open;
        return true;
      }
      waiting.push_back(key);
      return false;
    });
  }

  void throw_if_nobody_is_left(Operation& o) {
    if (!near_.empty() || !far_.empty()) return;
    match();
    if (o.side) return;  // its sender was the last to go
    const bool far = !near_.end || (far_.end && far_.end->kind() == TransportError::Kind::dead);
    const auto& error = far ? far_.end : near_.end;
    const TransportError told = error ? *error : departed(rank(), rank(), o.tag);
    end(o);
    throw told;
  }

  // Sleeps where a peer of my host rings.
  std::optional<Arrival> wait_near(Request request, double seconds) {
    Operation& o = operations_.find(request);
    try {
      const Arrival arrival = near_.transport->wait(o.inner, {now() + seconds});
      end(o);
      return arrival;
    } catch (const TransportError& e) {
      if (e.kind() == TransportError::Kind::deadline) return {};
      end(o);
      throw;
    }
  }

  Side near_, far_;
  const Doze doze_;
  Operations<Operation> operations_;
  std::vector<Operation*> from_anybody_;  // not yet matched, in the order posted
  bool turn_ = false, used_ = false;
};

}  // namespace

std::unique_ptr<Transport> open_routed(std::unique_ptr<Transport> near,
                                       std::unique_ptr<Transport> far, Doze doze) {
  return std::make_unique<Routed>(std::move(near), std::move(far), std::move(doze));
}

}  // namespace lockstep
