#include "strategies/ad_psgd_exchange.h"

#include "strategies/add_scaled.h"
#include "transport/patient.h"

namespace lockstep {
namespace {

constexpr Tag kActive{Purpose::weights, 0}, kPassive{Purpose::weights, 1};
constexpr Tag kRest{Purpose::control, 0xad95d};

using Kind = TransportError::Kind;

bool is_of_one_gone(const TransportError& e) {
  return e.kind() == Kind::dead || e.kind() == Kind::left;
}

// An open request that does not outlive its buffer.
class Open {
 public:
  Open(Transport& lane, Request request) : lane_(lane), request_(request) {}
  Open(const Open&) = delete;
  ~Open() {
    try {
      if (is_open_) lane_.cancel(request_);
    } catch (const std::exception&) {  // it has ended
    }
  }
  Request request() const { return request_; }
  void ended() { is_open_ = false; }
  void wait() {
    lane_.wait(request_);
    ended();
  }
  void renew(Request request) {
    request_ = request;
    is_open_ = true;
  }

 private:
  Transport& lane_;
  Request request_;
  bool is_open_ = true;
};

}  // namespace

AdPsgdExchange::AdPsgdExchange(const Rank& rank, Values weights, const MixAudit& proof)
    : lock_(rank.lock),
      proof_(proof),
      x_(weights, weights.count()),
      gone_(rank.size()),
      a_(weights, weights.count()),
      b_(weights, weights.count()) {
  copy(x_.values().bytes(), weights.bytes());
}

// Does something with a peer. False: that one is gone.
template <class F>
bool AdPsgdExchange::talk(int peer, F&& f) {
  try {
    f();
    return true;
  } catch (const TransportError& e) {
    if (!is_of_one_gone(e)) throw;
    const std::lock_guard hold(lock_);
    gone_[peer] = true;
    return false;
  }
}

// x_i += (b - a)/2, where a was x_i when the exchange began: a step taken since stays whole.
void AdPsgdExchange::meet(Transport& lane, int passive) {
  const Values x = x_.values(), a = a_.values(), b = b_.values();
  std::uint64_t steps = 0;
  {
    const std::lock_guard hold(lock_);
    copy(a.bytes(), x.bytes());
    steps = steps_;
  }
  const Projection mine = proof_.of(a);
  Projection theirs;
  const bool answered = talk(passive, [&] {
    Open answer(lane, lane.recv(passive, kPassive.with_format(b.format()), b.bytes()));
    Open sent(lane, lane.send(passive, kActive.with_format(a.format()), a.bytes()));
    proof_.give(lane, passive, mine);
    answer.wait();
    sent.wait();
    theirs = proof_.take(lane, passive);
  });
  if (!answered) return;
  const std::lock_guard hold(lock_);
  const Projection before = proof_.of(x);
  add_scaled(b, -1, a);
  add_scaled(x, 0.5, b);
  proof_.expect("weights", x, {{1, before}, {0.5, theirs}, {-0.5, mine}});
  contributions_.add(passive, 0.5, steps_ - steps);
}

// x_j += (a - b)/2, where b is x_j as it is now: the same difference as at the active worker.
void AdPsgdExchange::reply(Transport& lane, int active) {
  const Values x = x_.values(), a = a_.values(), b = b_.values();
  const Projection theirs = proof_.take(lane, active);
  Projection mine;
  {
    const std::lock_guard hold(lock_);
    copy(b.bytes(), x.bytes());
    mine = proof_.of(b);
    add_scaled(a, -1, b);
    add_scaled(x, 0.5, a);
    proof_.expect("weights", x, {{0.5, mine}, {0.5, theirs}});
    contributions_.add(active, 0.5, 0);
  }
  Open sent(lane, lane.send(active, kPassive.with_format(b.format()), b.bytes()));
  sent.wait();
  proof_.give(lane, active, mine);
}

void AdPsgdExchange::say_rest(Transport& lane, const std::vector<int>& passives) {
  for (const int passive : passives)
    talk(passive, [&] { lane.wait(lane.send(passive, kRest, {})); });
}

void AdPsgdExchange::answer(Transport& lane, const std::vector<int>& actives) {
  try {
    answer_all(lane, actives);
  } catch (const std::exception&) {
    failed_ = true;
    throw;
  }
}

// Who asks. Nobody: the active worker whose `rest` is waited for rests, or is gone.
std::optional<int> AdPsgdExchange::next(Transport& lane, Request rest, Request asked) const {
  const Request either[] = {rest, asked};
  try {
    Arrival arrival;
    if (wait_any_while_they_live(lane, either, &arrival) == 0) return {};
    return arrival.from;
  } catch (const TransportError& e) {
    if (is_of_one_gone(e)) return {};
    throw;
  }
}

// Whoever asks is answered. Meanwhile one active worker after the other is waited for by name,
// since nobody can tell that one of "any rank" is gone.
void AdPsgdExchange::answer_all(Transport& lane, const std::vector<int>& actives) {
  const auto listen = [&] {
    const Values a = a_.values();
    return lane.recv(kAnyRank, kActive.with_format(a.format()), a.bytes());
  };
  Open asked(lane, listen());
  for (const int active : actives) {
    Open rest(lane, lane.recv(active, kRest, {}));
    while (const auto from = next(lane, rest.request(), asked.request())) {
      asked.ended();
      if (abandoned_) return;
      talk(*from, [&] { reply(lane, *from); });
      asked.renew(listen());
    }
    rest.ended();
  }
}

}  // namespace lockstep
