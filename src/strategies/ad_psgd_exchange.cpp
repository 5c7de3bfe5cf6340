#include "strategies/ad_psgd_exchange.h"

#include <algorithm>
#include <list>
#include <optional>

#include "strategies/add_scaled.h"
#include "transport/patient.h"

namespace lockstep {
namespace {

constexpr Tag kNote{Purpose::control, 0xad95d};
constexpr Tag kActive{Purpose::weights, 0}, kPassive{Purpose::weights, 1};

// Goes ahead of weights, so that they are received from whom one knows: if that one dies in their
// midst, nobody else's message is lost. Also the last word of an active worker that rests.
struct Note {
  std::uint64_t meets = 0;  // 1: weights follow
  Projection proof = {};    // of them, for the audit
};

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
  // The other side may have a checkpoint to write first.
  void wait() {
    wait_while_it_lives(lane_, request_);
    ended();
  }

 private:
  Transport& lane_;
  const Request request_;
  bool is_open_ = true;
};

// What an active worker will say next.
struct Ear {
  Ear(Transport& lane, int active)
      : active(active), heard(lane, lane.recv(active, kNote, bytes_of(note))) {}
  const int active;
  Note note;
  Open heard;
};

// The one that has heard something. None: who is waited for is gone, as `gone` then says.
std::list<Ear>::iterator next(Transport& lane, std::list<Ear>& ears,
                              std::optional<TransportError>& gone) {
  std::vector<Request> open;
  for (const Ear& ear : ears) open.push_back(ear.heard.request());
  try {
    return std::next(ears.begin(),
                     static_cast<std::ptrdiff_t>(wait_any_while_they_live(lane, open)));
  } catch (const TransportError& e) {
    if (!e.is_gone()) throw;
    gone = e;
  }
  return std::ranges::find_if(
      ears, [&](const Ear& ear) { return lane.job_rank(ear.active) == gone->waited_for(); });
}

}  // namespace

AdPsgdExchange::AdPsgdExchange(const Rank& rank, Values weights, const MixAudit& proof)
    : clock_(rank.clock),
      lock_(rank.lock),
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
    if (!e.is_gone()) throw;
  }
  lose(peer);  // may pass time, which no handler must
  return false;
}

void AdPsgdExchange::lose(int peer) {
  const std::lock_guard hold(lock_);
  gone_[peer] = true;
}

// x_i += (b - a)/2, where a was x_i when the exchange began: a step taken since stays whole.
void AdPsgdExchange::meet(Transport& lane, int passive) {
  const double start = clock_.now();
  const Values x = x_.values(), a = a_.values(), b = b_.values();
  std::uint64_t steps = 0;
  {
    const std::lock_guard hold(lock_);
    copy(a.bytes(), x.bytes());
    steps = steps_;
  }
  const Note mine{1, proof_.of(a)};
  Note theirs;
  const bool answered = talk(passive, [&] {
    Open note(lane, lane.recv(passive, kNote, bytes_of(theirs)));
    Open answer(lane, lane.recv(passive, kPassive.with_format(b.format()), b.bytes()));
    Open said(lane, lane.send(passive, kNote, {&mine, sizeof mine}));
    Open sent(lane, lane.send(passive, kActive.with_format(a.format()), a.bytes()));
    for (Open* open : {&note, &answer, &said, &sent}) open->wait();
  });
  if (!answered) return;
  const std::lock_guard hold(lock_);
  const Projection before = proof_.of(x);
  add_scaled(b, -1, a);
  add_scaled(x, 0.5, b);
  proof_.expect("weights", x, {{1, before}, {0.5, theirs.proof}, {-0.5, mine.proof}});
  if (proof_.on()) brought_.insert(brought_.end(), {{0.5, theirs.proof}, {-0.5, mine.proof}});
  contributions_.add(passive, 0.5, steps_ - steps);
  exchanging_s_ += clock_.now() - start;
}

// x_j += (a - b)/2, where b is x_j as it is now: the same difference as at the active worker.
void AdPsgdExchange::reply(Transport& lane, int active, const Projection& theirs) {
  const double start = clock_.now();
  const Values x = x_.values(), a = a_.values(), b = b_.values();
  Open(lane, lane.recv(active, kActive.with_format(a.format()), a.bytes())).wait();
  Note mine{1};
  {
    const std::lock_guard hold(lock_);
    copy(b.bytes(), x.bytes());
    mine.proof = proof_.of(b);
    add_scaled(a, -1, b);
    add_scaled(x, 0.5, a);
    proof_.expect("weights", x, {{0.5, mine.proof}, {0.5, theirs}});
    if (proof_.on()) brought_.insert(brought_.end(), {{0.5, theirs}, {-0.5, mine.proof}});
    contributions_.add(active, 0.5, 0);
  }
  Open said(lane, lane.send(active, kNote, {&mine, sizeof mine}));
  Open sent(lane, lane.send(active, kPassive.with_format(b.format()), b.bytes()));
  said.wait();
  sent.wait();
  const std::lock_guard hold(lock_);
  exchanging_s_ += clock_.now() - start;
}

void AdPsgdExchange::say_rest(Transport& lane, const std::vector<int>& passives) {
  const Note rests;
  for (const int passive : passives)
    talk(passive, [&] { Open(lane, lane.send(passive, kNote, {&rests, sizeof rests})).wait(); });
}

void AdPsgdExchange::answer(Transport& lane, const std::vector<int>& actives) {
  try {
    answer_all(lane, actives);
  } catch (const std::exception&) {
    failed_ = true;
    throw;
  }
}

// Whoever asks is answered, the one that was answered last after the others.
void AdPsgdExchange::answer_all(Transport& lane, const std::vector<int>& actives) {
  std::list<Ear> ears;
  for (const int active : actives) ears.emplace_back(lane, active);
  while (!ears.empty()) {
    std::optional<TransportError> gone;
    const auto ear = next(lane, ears, gone);
    if (ear == ears.end()) throw *gone;
    ear->heard.ended();
    if (abandoned_) return;
    const int active = ear->active;
    const Note note = ear->note;
    ears.erase(ear);
    if (gone)
      lose(active);
    else if (note.meets && talk(active, [&] { reply(lane, active, note.proof); }))
      ears.emplace_back(lane, active);
  }
}

}  // namespace lockstep
