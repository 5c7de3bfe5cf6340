#include "transport/witnessed.h"

#include "transport/failure.h"

namespace lockstep {
namespace {

using Kind = Witness::Kind;

// How a wait ended. Written in records: keep the order. An index is also that of a request whose
// peer is gone.
enum End : std::uint64_t { kIndex, kMissedDeadline, kMismatch };

// A recv of a replay that is never posted has an id that no transport gives.
constexpr std::uint64_t kNeverPosted = std::uint64_t(1) << 63;

[[noreturn]] void diverged(const std::string& what) {
  throw ReplayDiverged(what + ": replay the same program with the same configuration");
}

}  // namespace

Request Witnessed::post_recv(int from, Tag tag, Bytes into, Combine combine) {
  check_peer(from, rank(), size(), "receive from");
  const std::uint64_t number = receives_++;
  if (const auto with_message = witness_.given_up(number)) {
    if (*with_message) {
      Unseen& unseen = unseen_.emplace_back(Unseen{std::vector<std::byte>(into.size), {}});
      unseen.receive = inner_.recv(from, tag, {unseen.memory.data(), into.size});
    }
    return {kNeverPosted | number};
  }
  const Request request = inner_.post_recv(from, tag, into, combine);
  if (!witness_.replays()) posted_[request.id] = number;
  return request;
}

Ending Witnessed::wait_any(std::span<const Request> requests, Deadline deadline) {
  if (witness_.replays()) return replay_wait_any(requests);
  try {
    Ending ending = inner_.wait_any(requests, deadline);
    if (ending.late()) {
      witness_.note(Kind::wait, {requests.size(), kMissedDeadline,
                                 static_cast<std::uint64_t>(ending.failure->peer() + 1)});
    } else {
      witness_.note(Kind::wait, {requests.size(), kIndex, ending.index});
      posted_.erase(requests[ending.index].id);
    }
    return ending;
  } catch (const TransportError&) {
    witness_.note(Kind::wait, {requests.size(), kMismatch, 0});
    throw;
  }
}

Ending Witnessed::replay_wait_any(std::span<const Request> requests) {
  const auto recorded = witness_.next(Kind::wait);
  if (recorded.at(0) != requests.size())
    diverged(fmt::format("a wait for {} requests had {} in the recorded run", requests.size(),
                         recorded[0]));
  if (recorded.at(1) == kMissedDeadline) {
    const int peer = static_cast<int>(recorded.at(2)) - 1;
    return {0,
            {},
            TransportError(TransportError::Kind::deadline, peer,
                           fmt::format("rank {} waited past its deadline for rank {}, as in the "
                                       "recorded run",
                                       rank(), peer))};
  }
  if (recorded[1] == kMismatch) {
    std::vector<Request> real;
    for (const Request& r : requests)
      if (!(r.id & kNeverPosted)) real.push_back(r);
    // Throws as it did then; requests that complete meanwhile would not have been first.
    if (!real.empty()) inner_.wait_any(real, patience());
    diverged("a wait ended well that failed in the recorded run");
  }
  const std::size_t index = recorded.at(2);
  Ending ending = replay_wait(requests[index]);
  ending.index = index;
  return ending;
}

Ending Witnessed::replay_wait(Request request) {
  if (request.id & kNeverPosted)
    diverged(fmt::format("receive {} is waited for, and never ended in the recorded run",
                         request.id & ~kNeverPosted));
  Ending ending = inner_.wait_any({&request, 1}, patience());
  if (ending.late()) ending.or_throw();
  return ending;
}

std::optional<Ending> Witnessed::test(Request request) {
  if (witness_.replays()) {
    const auto recorded = witness_.next(Kind::test);
    return recorded.at(0) ? std::optional(replay_wait(request)) : std::nullopt;
  }
  try {
    auto ending = inner_.test(request);
    witness_.note(Kind::test, {ending.has_value()});
    if (ending) posted_.erase(request.id);
    return ending;
  } catch (const TransportError&) {
    witness_.note(Kind::test, {1});  // the replay waits for it, and so fails too
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

bool Witnessed::give_up(Request request) noexcept {
  if (request.id & kNeverPosted) return true;
  const bool nothing_came = inner_.give_up(request);
  if (const auto receive = posted_.find(request.id); receive != posted_.end()) {
    witness_.note_given_up(receive->second, !nothing_came);
    posted_.erase(receive);
  }
  return nothing_came;
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
