#include "strategies/ad_psgd_exchange.h"

#include <algorithm>
#include <initializer_list>
#include <list>

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

// What an active worker will say next.
struct Ear {
  Ear(Transport& lane, int active)
      : active(active), heard(lane.recv(active, kNote, bytes_of(note))) {}
  const int active;
  Note note;
  Pending heard;
};

// False: the peer is gone. It may have a checkpoint to write before it gets to these.
bool arrive(Transport& lane, std::initializer_list<Pending*> all) {
  return std::ranges::none_of(
      all, [&](Pending* pending) { return ending_while_it_lives(lane, *pending).gone(); });
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
  Pending note = lane.recv(passive, kNote, bytes_of(theirs));
  Pending answer = lane.recv(passive, kPassive.with_format(b.format()), b.bytes());
  Pending said = lane.send(passive, kNote, {&mine, sizeof mine});
  Pending sent = lane.send(passive, kActive.with_format(a.format()), a.bytes());
  if (!arrive(lane, {&note, &answer, &said, &sent})) return lose(passive);
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
bool AdPsgdExchange::reply(Transport& lane, int active, const Projection& theirs) {
  const double start = clock_.now();
  const Values x = x_.values(), a = a_.values(), b = b_.values();
  Pending come = lane.recv(active, kActive.with_format(a.format()), a.bytes());
  if (!arrive(lane, {&come})) return false;
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
  Pending said = lane.send(active, kNote, {&mine, sizeof mine});
  Pending sent = lane.send(active, kPassive.with_format(b.format()), b.bytes());
  if (!arrive(lane, {&said, &sent})) return false;
  const std::lock_guard hold(lock_);
  exchanging_s_ += clock_.now() - start;
  return true;
}

void AdPsgdExchange::say_rest(Transport& lane, const std::vector<int>& passives) {
  const Note rests;
  for (const int passive : passives) {
    Pending said = lane.send(passive, kNote, {&rests, sizeof rests});
    if (!arrive(lane, {&said})) lose(passive);
  }
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
    std::vector<Request> open;
    for (const Ear& ear : ears) open.push_back(ear.heard.request());
    const Ending ending = wait_any_while_they_live(lane, open);
    if (abandoned_) return;
    const auto ear = std::next(ears.begin(), static_cast<std::ptrdiff_t>(ending.index));
    const int active = ear->active;
    const Note note = ear->note;
    ears.erase(ear);
    if (ending.gone() || (note.meets && !reply(lane, active, note.proof)))
      lose(active);
    else if (note.meets)
      ears.emplace_back(lane, active);
  }
}

}  // namespace lockstep
