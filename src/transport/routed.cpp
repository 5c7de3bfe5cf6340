#include "transport/routed.h"

#include <algorithm>

#include "transport/awake_clock.h"
#include "transport/channels.h"
#include "transport/failure.h"
#include "transport/operations.h"

namespace lockstep {
namespace {

// How often the side that nothing is awaited from is looked at while spinning.
constexpr int kGlance = 16;
constexpr int kSpins = 200;
// A sleep hears one side at once and the other when it ends: short while both have work open.
constexpr double kFirstSleepSeconds = 100e-6, kBusySleepSeconds = 500e-6, kSleepSeconds = 20e-3;

struct Side {
  std::unique_ptr<Transport> transport;
  int peers = 0;  // that are reached through it
  int open = 0;   // operations

  void progress() {
    if (peers > 0) (void)transport->probe(kAnyRank, channels::kNobody);
  }
};

struct Operation : WireOperation {
  Side* side = nullptr;
  Request inner;
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

  Request post_send(int to, Tag tag, ConstBytes bytes) override {
    check_peer(to, rank(), size(), "send to");
    Side& side = side_of(to);
    return add(side, side.transport->post_send(to, tag, bytes), to, tag);
  }

  Request post_recv(int from, Tag tag, Bytes into, Combine combine) override {
    check_peer(from, rank(), size(), "receive from");
    Side& side = side_of(from);
    return add(side, side.transport->post_recv(from, tag, into, combine), from, tag);
  }

  Ending wait_any(std::span<const Request> requests, Deadline deadline) override {
    double step = kFirstSleepSeconds;
    std::optional<Countdown> time;
    for (int turn = 0;; ++turn) {
      if (auto ended = operations_.first(requests, [&](auto& o) { return test({o.id}); }))
        return std::move(*ended);
      if (turn % kGlance == 0 || turn > kSpins) {
        near_.progress();
        far_.progress();
      }
      if (turn < kSpins) continue;
      near_.transport->dead_peers();  // looks who died, which test() doesn't
      const Operation& first = operations_.find(requests[0]);
      if (!time) time.emplace(deadline.at - now());
      const double left = time->left();
      if (left <= 0) return operations_.late(requests, rank());
      const bool busy = near_.open > 0 && (far_.open > 0 || requests.size() > 1);
      step = std::min(2 * step, busy ? kBusySleepSeconds : kSleepSeconds);
      if (requests.size() == 1 && first.side == &near_ && far_.open == 0) {
        // Sleeps where a peer of my host rings.
        Ending ending =
            near_.transport->wait_any({&first.inner, 1}, {now() + std::min(left, step)});
        if (ending.late()) continue;
        end(requests[0]);
        return ending;
      }
      doze_(std::min(left, step));
    }
  }

  std::optional<Ending> test(Request request) override {
    const Operation& o = operations_.find(request);
    auto ended = o.side->transport->test(o.inner);
    if (ended) end(request);
    return ended;
  }

  std::optional<Arrival> probe(int from, Tag tag) override {
    if (from != kAnyRank) return side_of(from).transport->probe(from, tag);
    if (const auto found = near_.transport->probe(from, tag)) return found;
    return far_.transport->probe(from, tag);
  }

  bool give_up(Request request) noexcept override {
    const Operation* const o = operations_.find_open(request);
    if (!o) return true;
    const bool nothing_came = o->side->transport->give_up(o->inner);
    end(request);
    return nothing_came;
  }

  Request post_bell() override { return add(near_, near_.transport->post_bell(), rank(), {}); }
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
    Operation& o = operations_.add(peer, tag);
    o.side = &side;
    o.inner = inner;
    ++side.open;
    return {o.id};
  }

  void end(Request request) {
    Operation& o = operations_.find(request);
    --o.side->open;
    operations_.end(o);
  }

  Side near_, far_;
  const Doze doze_;
  Operations<Operation> operations_;
  bool used_ = false;
};

}  // namespace

std::unique_ptr<Transport> open_routed(std::unique_ptr<Transport> near,
                                       std::unique_ptr<Transport> far, Doze doze) {
  return std::make_unique<Routed>(std::move(near), std::move(far), std::move(doze));
}

}  // namespace lockstep
