#include "strategies/peers/ad_psgd_exchange.h"

#include <algorithm>
#include <initializer_list>
#include <list>
#include <optional>

#include "strategies/add_scaled.h"
#include "transport/channels.h"
#include "transport/patient.h"

namespace lockstep {
namespace {

constexpr Tag kNote = channels::kAdPsgdNote, kActive = channels::kAdPsgdActive,
              kPassive = channels::kAdPsgdPassive;

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

// What a passive worker says and sends to an active one.
struct Answer {
  Answer(int active, const Note& note) : active(active), note(note) {}
  const int active;
  Note note;
  Pending said, sent;
};

// False: the peer is gone. It may have a checkpoint to write before it gets to those of these that
// have not ended.
bool arrive(Transport& lane, std::initializer_list<Pending*> all) {
  return std::ranges::none_of(all, [&](Pending* pending) {
    return *pending && ending_while_it_lives(lane, *pending).gone();
  });
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
Projection AdPsgdExchange::mix(int active, const Projection& theirs) {
  const Values x = x_.values(), a = a_.values(), b = b_.values();
  const std::lock_guard hold(lock_);
  copy(b.bytes(), x.bytes());
  const Projection mine = proof_.of(b);
  add_scaled(a, -1, b);
  add_scaled(x, 0.5, a);
  proof_.expect("weights", x, {{0.5, mine}, {0.5, theirs}});
  if (proof_.on()) brought_.insert(brought_.end(), {{0.5, theirs}, {-0.5, mine}});
  contributions_.add(active, 0.5, 0);
  return mine;
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

void AdPsgdExchange::exchanged_since(double& since) {
  const double now = clock_.now();
  const std::lock_guard hold(lock_);
  exchanging_s_ += now - std::exchange(since, now);
}

// Whoever asks is answered, the one that was answered last after the others. While one answer is on
// its way the next worker's weights come.
void AdPsgdExchange::answer_all(Transport& lane, const std::vector<int>& actives) {
  const Values a = a_.values(), b = b_.values();
  std::list<Ear> ears;
  for (const int active : actives) ears.emplace_back(lane, active);
  std::optional<Answer> answer;  // on its way
  double since = 0;              // not counted yet, while anything is exchanged
  const auto finish = [&](bool gone) {
    if (gone || !arrive(lane, {&answer->said, &answer->sent})) lose(answer->active);
    answer.reset();
  };
  while (!ears.empty() || answer) {
    std::vector<Request> open;
    for (const Ear& ear : ears) open.push_back(ear.heard.request());
    if (answer) open.push_back(answer->sent.request());
    const Ending ending = wait_any_while_they_live(lane, open);
    if (abandoned_) return;
    if (ending.index == ears.size()) {
      answer->sent.ended();
      finish(ending.gone());
      exchanged_since(since);
      continue;
    }
    const auto ear = std::next(ears.begin(), static_cast<std::ptrdiff_t>(ending.index));
    const int active = ear->active;
    const Note note = ear->note;
    ears.erase(ear);
    if (ending.gone()) lose(active);
    if (ending.gone() || !note.meets) continue;
    if (!answer) since = clock_.now();
    Pending come = lane.recv(active, kActive.with_format(a.format()), a.bytes());
    if (!arrive(lane, {&come})) {
      lose(active);
      continue;
    }
    if (answer) finish(false);  // b goes with it
    answer.emplace(active, Note{1, mix(active, note.proof)});
    answer->said = lane.send(active, kNote, bytes_of(answer->note));
    answer->sent = lane.send(active, kPassive.with_format(b.format()), b.bytes());
    exchanged_since(since);
    ears.emplace_back(lane, active);
  }
}

}  // namespace lockstep
