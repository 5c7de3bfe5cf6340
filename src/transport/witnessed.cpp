#include "transport/witnessed.h"

#include "transport/failure.h"

namespace lockstep {
namespace {

using Kind = Witness::Kind;

// How a wait ended. Written in records: keep the order.
enum End : std::uint64_t { kIndex, kMissedDeadline, kFailed };

// A recv of a replay that is never posted has an id that no transport gives.
constexpr std::uint64_t kNeverPosted = std::uint64_t(1) << 63;

[[noreturn]] void diverged(const std::string& what) {
  throw ReplayDiverged(what + ": replay the same program with the same configuration");
}

}  // namespace

Request Witnessed::recv(int from, Tag tag, Bytes into, Combine combine) {
  if (from != kAnyRank) check_peer(from, rank(), size(), "receive from");
  const std::uint64_t number = receives_++;
  if (witness_.replays()) {
    const auto source = witness_.source(number);
    const bool posted = source ? *source != WitnessLog::kCancelled : from != kAnyRank;
    if (!posted) return {kNeverPosted | number};
    if (source && from != kAnyRank)
      diverged(fmt::format("receive {} is from rank {}, and was from any", number, from));
    if (source && (*source >= size() || *source == rank()))
      diverged(fmt::format("receive {} was matched with rank {} of more than {} ranks", number,
                           *source, size()));
    return inner_.recv(source ? static_cast<int>(*source) : from, tag, into, combine);
  }
  const Request request = inner_.recv(from, tag, into, combine);
  posted_[request.id] = {number, from == kAnyRank};
  return request;
}

// An any-source recv that fails has no source, and is posted to any in the replay. Which of several
// failed is not told, but those that did not will end otherwise.
void Witnessed::failed(std::span<const Request> requests) {
  for (const Request& r : requests)
    if (const auto entry = posted_.find(r.id); entry != posted_.end() && entry->second.any)
      witness_.note_source(entry->second.number, kAnyRank);
}

void Witnessed::ended(Request request, const Arrival& arrival) {
  const auto entry = posted_.find(request.id);
  if (entry == posted_.end()) return;  // a send
  if (entry->second.any) witness_.note_source(entry->second.number, arrival.from);
  posted_.erase(entry);
}

std::size_t Witnessed::wait_any(std::span<const Request> requests, Deadline deadline,
                                Arrival* arrival) {
  if (witness_.replays()) return replay_wait_any(requests, arrival);
  try {
    Arrival how;
    const std::size_t index = inner_.wait_any(requests, deadline, &how);
    witness_.note(Kind::wait, {requests.size(), kIndex, index});
    ended(requests[index], how);
    if (arrival) *arrival = how;
    return index;
  } catch (const TransportError& error) {
    if (error.kind() == TransportError::Kind::deadline)
      witness_.note(Kind::wait, {requests.size(), kMissedDeadline,
                                 static_cast<std::uint64_t>(error.peer() + 1)});
    else
      witness_.note(Kind::wait, {requests.size(), kFailed, 0}), failed(requests);
    throw;
  }
}

std::size_t Witnessed::replay_wait_any(std::span<const Request> requests, Arrival* arrival) {
  const auto recorded = witness_.next(Kind::wait);
  if (recorded.at(0) != requests.size())
    diverged(fmt::format("a wait for {} requests had {} in the recorded run", requests.size(),
                         recorded[0]));
  if (recorded.at(1) == kMissedDeadline) {
    const int peer = static_cast<int>(recorded.at(2)) - 1;
    throw TransportError(TransportError::Kind::deadline, peer,
                         fmt::format("rank {} waited past its deadline for rank {}, as in the "
                                     "recorded run",
                                     rank(), peer));
  }
  if (recorded[1] == kFailed) {
    std::vector<Request> real;
    for (const Request& r : requests)
      if (!(r.id & kNeverPosted)) real.push_back(r);
    // Throws as it did then; requests that complete meanwhile would not have been first.
    if (!real.empty()) inner_.wait_any(real, patience());
    diverged("a wait ended well that failed in the recorded run");
  }
  const std::size_t index = recorded.at(2);
  const Arrival how = replay_wait(requests[index]);
  if (arrival) *arrival = how;
  return index;
}

Arrival Witnessed::replay_wait(Request request) {
  if (request.id & kNeverPosted)
    diverged(fmt::format("receive {} is waited for, and never ended in the recorded run",
                         request.id & ~kNeverPosted));
  return inner_.wait(request);
}

std::optional<Arrival> Witnessed::test(Request request) {
  if (witness_.replays()) {
    const auto recorded = witness_.next(Kind::test);
    return recorded.at(0) ? std::optional(replay_wait(request)) : std::nullopt;
  }
  try {
    const auto arrival = inner_.test(request);
    witness_.note(Kind::test, {arrival.has_value()});
    if (arrival) ended(request, *arrival);
    return arrival;
  } catch (const TransportError&) {
    witness_.note(Kind::test, {1});  // the replay waits for it, and so fails too
    failed({&request, 1});
    throw;
  }
}

std::optional<Arrival> Witnessed::probe(int from, Tag tag) {
  if (witness_.replays()) {
    const auto recorded = witness_.next(Kind::probe);
    if (recorded.empty()) return {};
    return Arrival{static_cast<int>(recorded.at(0)), recorded.at(1)};
  }
  const auto arrival = inner_.probe(from, tag);
  witness_.note(Kind::probe,
                arrival ? Witness::Words{static_cast<std::uint64_t>(arrival->from), arrival->bytes}
                        : Witness::Words{});
  return arrival;
}

bool Witnessed::cancel(Request request) {
  if (witness_.replays()) return replay_cancel(request);
  const auto entry = posted_.find(request.id);
  bool cancelled = true;
  try {
    // A message that is there already is taken by test, which tells its source.
    const bool any = entry != posted_.end() && entry->second.any;
    if (const auto arrived = any ? inner_.test(request) : std::nullopt) {
      witness_.note(Kind::cancel, {false});
      ended(request, *arrived);
      return false;
    }
    cancelled = inner_.cancel(request);
  } catch (const TransportError&) {  // from test: it could not complete, and took no message
  }
  witness_.note(Kind::cancel, {cancelled});
  if (entry == posted_.end()) return cancelled;
  if (cancelled) witness_.note_source(entry->second.number, WitnessLog::kCancelled);
  posted_.erase(entry);
  return cancelled;
}

bool Witnessed::replay_cancel(Request request) {
  const bool cancelled = witness_.next(Kind::cancel).at(0);
  const bool posted = !(request.id & kNeverPosted);
  if (!cancelled && !posted)
    diverged(fmt::format("receive {} ended while it was cancelled, from a source not recorded",
                         request.id & ~kNeverPosted));
  if (!cancelled)
    inner_.wait(request);
  else if (posted)
    inner_.cancel(request);  // a send
  return cancelled;
}

std::vector<int> Witnessed::dead_peers() {
  if (witness_.replays()) {
    const auto recorded = witness_.next(Kind::dead);
    return {recorded.begin(), recorded.end()};
  }
  const auto dead = inner_.dead_peers();
  witness_.note(Kind::dead, {dead.begin(), dead.end()});
  return dead;
}

void WitnessedBackground::rethrow_kept() {
  if (kept_) std::rethrow_exception(std::exchange(kept_, nullptr));
}

void WitnessedBackground::wait(std::uint64_t number) {
  inner_.wait(number);
  rethrow_kept();
}

void WitnessedBackground::drain() {
  inner_.drain();
  rethrow_kept();
}

bool WitnessedBackground::done(std::uint64_t number) {
  if (!witness_.replays()) {
    const bool done = inner_.done(number);
    witness_.note(Kind::done, {done});
    return done;
  }
  if (!witness_.next(Kind::done).at(0)) return false;
  try {
    inner_.wait(number);
  } catch (const Error&) {  // done() does not tell of it: the next wait does
    kept_ = std::current_exception();
  }
  return true;
}

void WitnessedLock::lock() {
  const auto me = static_cast<std::uint64_t>(who_());
  const double give_up = clock_.now() + kDefaultPatienceSeconds;
  for (;;) {
    inner_.lock();
    if (!witness_.replays()) {
      witness_.note(Kind::lock, {me});
      return;
    }
    const auto turn = witness_.peek(Kind::lock);
    if (turn == me) {
      witness_.next(Kind::lock);
      return;
    }
    inner_.unlock();
    if (!turn) diverged("the lock is taken more often than in the recorded run");
    if (clock_.now() > give_up)
      diverged(fmt::format("the lock's next owner in the recorded run, {}, does not come", *turn));
    pause_();
  }
}

}  // namespace lockstep
