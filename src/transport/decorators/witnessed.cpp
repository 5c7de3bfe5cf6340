#include "transport/decorators/witnessed.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <thread>

#include "transport/failure.h"

namespace lockstep {
namespace {

using Kind = Witness::Kind;

// How a wait ended. Written in records: keep the order. An index is also that of a request whose
// peer is gone.
enum End : std::uint64_t { kIndex, kMissedDeadline, kMismatch };

// A request of a replay that is never posted has an id that no transport gives.
constexpr std::uint64_t kNeverPosted = std::uint64_t(1) << 63;

// A replay looks whether it has failed elsewhere this often.
constexpr double kLookSeconds = 1;

}  // namespace

Request Witnessed::opened(Request request, std::uint64_t number) {
  open_[request.id] = number;
  return request;
}

Request Witnessed::post_send(int to, Tag tag, ConstBytes bytes) {
  check_peer(to, rank(), size(), "send to");
  const std::uint64_t number = count_++;
  if (witness_.given_up(number) == false) return {kNeverPosted | number};
  return opened(inner_.post_send(to, tag, bytes), number);
}

Request Witnessed::post_recv(int from, Tag tag, Bytes into, Combine combine) {
  check_peer(from, rank(), size(), "receive from");
  const std::uint64_t number = count_++;
  const std::optional<bool> passed = witness_.given_up(number);
  if (!passed) return opened(inner_.post_recv(from, tag, into, combine), number);
  if (*passed) {
    Unseen& unseen = unseen_.emplace_back(Unseen{std::vector<std::byte>(into.size), {}});
    unseen.receive = inner_.recv(from, tag, {unseen.memory.data(), into.size});
  }
  return {kNeverPosted | number};
}

Ending Witnessed::wait_any(std::span<const Request> requests, Deadline deadline) {
  if (witness_.replays()) return replay_wait_any(requests);
  try {
    Ending ending = inner_.wait_any(requests, deadline);
    if (ending.late()) {
      witness_.note(Kind::wait, {requests.size(), kMissedDeadline,
                                 static_cast<std::uint64_t>(ending.failure->peer() + 1)});
      return ending;
    }
    open_.erase(requests[ending.index].id);
    if (ending.index == 0)
      witness_.note(Kind::wait, {requests.size()});
    else
      witness_.note(Kind::wait, {requests.size(), kIndex, ending.index});
    return ending;
  } catch (const TransportError&) {
    witness_.note(Kind::wait, {requests.size(), kMismatch, 0});
    throw;
  }
}

Ending Witnessed::replay_wait_any(std::span<const Request> requests) {
  const Witness::Words recorded = witness_.next(Kind::wait);
  if (recorded[0] != requests.size())
    witness_.diverge(fmt::format("a wait for {} requests had {} in the recorded run",
                                 requests.size(), recorded[0]));
  const std::uint64_t end = recorded.size() == 1 ? kIndex : recorded[1];
  if (end == kMissedDeadline) {
    const int peer = static_cast<int>(recorded[2]) - 1;
    return {0,
            {},
            TransportError(TransportError::Kind::deadline, peer,
                           fmt::format("rank {} waited past its deadline for rank {}, as in the "
                                       "recorded run",
                                       rank(), peer))};
  }
  if (end == kMismatch) {
    std::vector<Request> real;
    for (const Request& r : requests)
      if (!(r.id & kNeverPosted)) real.push_back(r);
    // Throws as it did then; requests that complete meanwhile would not have been first.
    if (!real.empty()) inner_.wait_any(real, patience());
    witness_.diverge("a wait ended well that failed in the recorded run");
  }
  const std::size_t index = recorded.size() == 1 ? 0 : recorded[2];
  Ending ending = replay_wait(requests[index]);
  ending.index = index;
  return ending;
}

// However long it takes: in the recorded run deadlines may have been missed before it ended.
Ending Witnessed::replay_wait(Request request) {
  if (request.id & kNeverPosted)
    witness_.diverge(fmt::format("message {} is waited for, and was given up in the recorded run",
                                 request.id & ~kNeverPosted));
  for (;;) {
    Ending ending =
        inner_.wait_any({&request, 1}, {now() + std::min(kLookSeconds, patience_seconds())});
    if (!ending.late()) {
      open_.erase(request.id);
      return ending;
    }
    if (witness_.stopped()) throw ReplayDiverged("the replay has failed on another lane");
  }
}

std::optional<Ending> Witnessed::test(Request request) {
  if (witness_.replays())
    return witness_.next(Kind::test)[0] ? std::optional(replay_wait(request)) : std::nullopt;
  try {
    auto ending = inner_.test(request);
    if (ending) open_.erase(request.id);
    witness_.note(Kind::test, {ending.has_value()});
    return ending;
  } catch (const TransportError&) {
    witness_.note(Kind::test, {1});  // the replay waits for it, and so fails too
    throw;
  }
}

std::optional<Arrival> Witnessed::probe(int from, Tag tag) {
  if (witness_.replays()) {
    const Witness::Words recorded = witness_.next(Kind::probe);
    if (recorded.empty()) return {};
    return Arrival{static_cast<int>(recorded[0]), recorded[1]};
  }
  const auto arrival = inner_.probe(from, tag);
  if (arrival)
    witness_.note(Kind::probe, {static_cast<std::uint64_t>(arrival->from), arrival->bytes});
  else
    witness_.note(Kind::probe, {});
  return arrival;
}

bool Witnessed::give_up(Request request) noexcept {
  if (request.id & kNeverPosted) return witness_.given_up(request.id & ~kNeverPosted) == false;
  const auto open = open_.find(request.id);
  if (open == open_.end()) return inner_.give_up(request);  // a bell, or it has ended
  const std::uint64_t number = open->second;
  open_.erase(open);
  if (witness_.replays() && witness_.given_up(number)) {  // a send that had reached its peer
    try {
      replay_wait(request);
      return false;
    } catch (const Error&) {  // the peer has no use for it
    }
  }
  const bool nothing_came = inner_.give_up(request);
  if (!witness_.replays()) witness_.note_given_up(number, !nothing_came);
  return nothing_came;
}

std::vector<int> Witnessed::dead_peers() {
  if (witness_.replays()) {
    const Witness::Words recorded = witness_.next(Kind::dead);
    return {recorded.begin(), recorded.end()};
  }
  const auto dead = inner_.dead_peers();
  witness_.note(Kind::dead, Witness::Words(dead.begin(), dead.end()));
  return dead;
}

void WitnessedLock::lock() {
  const auto me = static_cast<std::uint64_t>(who_());
  if (!witness_.replays()) {
    inner_.lock();
    try {
      witness_.note(Kind::lock, {me});
    } catch (const std::exception&) {
      inner_.unlock();
      throw;
    }
    return;
  }
  std::unique_lock hold(mutex_);
  const auto is_my_turn = [&] {
    const auto turn = held_ ? std::nullopt : witness_.peek(Kind::lock);
    return failure_ || turn == me || (!held_ && !turn);
  };
  if (!changed_.wait_for(hold, std::chrono::duration<double>(patience_s_), is_my_turn))
    witness_.diverge(fmt::format("lane {} wants it, and lane {}, whose turn it is, does not come",
                                 me, witness_.peek(Kind::lock).value_or(me)));
  if (failure_) std::rethrow_exception(failure_);
  witness_.next(Kind::lock);
  held_ = true;
}

void WitnessedLock::unlock() {
  if (!witness_.replays()) return inner_.unlock();
  {
    const std::lock_guard hold(mutex_);
    held_ = false;
  }
  changed_.notify_all();
}

void WitnessedLock::fail(std::exception_ptr failure) {
  {
    const std::lock_guard hold(mutex_);
    if (!failure_) failure_ = std::move(failure);
  }
  changed_.notify_all();
}

namespace {

class WitnessedClock final : public Clock {
 public:
  WitnessedClock(Clock& inner, Witness& witness) : inner_(inner), witness_(witness) {}

  double now() const override { return inner_.now(); }
  void charge(double seconds) override { inner_.charge(seconds); }
  bool decided(bool found) override {
    if (witness_.replays()) return witness_.next(Kind::decision)[0] != 0;
    witness_.note(Kind::decision, {found});
    return found;
  }

 private:
  Clock& inner_;
  Witness& witness_;
};

}  // namespace

// Jobs own the parts too: one may outlive the WitnessedRank.
struct WitnessedRank::Parts {
  Parts(const Rank& rank, std::shared_ptr<Record> kept)
      : record(std::move(kept)),
        own(rank.peers, record->witness(kOwnStream)),
        clock(rank.clock, record->witness(kOwnStream)),
        lock(rank.lock, record->witness(kLockStream), [this] { return this_lane(); }) {
    for (int lane = 0; lane <= std::ssize(rank.further); ++lane)
      background.emplace_back(record->witness(kBackgroundStream + lane));
  }

  // As WitnessedLock::Who has them.
  int this_lane() const {
    const auto mine = std::ranges::find_if(
        background, [](const Lane& lane) { return lane.thread == std::this_thread::get_id(); });
    return mine == background.end() ? 0 : 1 + static_cast<int>(mine - background.begin());
  }

  void run(int number, Transport& below, const Background::Job& job) {
    Lane& lane = background[number];
    lane.thread = std::this_thread::get_id();
    if (!lane.peers) lane.peers.emplace(below, lane.witness);
    std::exception_ptr failure;
    try {
      job(*lane.peers);
    } catch (const std::exception&) {
      failure = std::current_exception();
    }
    if (!failure) return;
    lock.fail(failure);
    std::rethrow_exception(failure);
  }

  const std::shared_ptr<Record> record;
  Witnessed own;
  WitnessedClock clock;
  struct Lane {
    explicit Lane(Witness& witness) : witness(witness) {}
    Witness& witness;
    std::atomic<std::thread::id> thread = {};
    std::optional<Witnessed> peers;  // made with the first job, on its thread
  };
  std::deque<Lane> background;
  WitnessedLock lock;
};

WitnessedRank::WitnessedRank(Rank& rank, std::shared_ptr<Record> record)
    : parts_(std::make_shared<Parts>(rank, std::move(record))),
      view_(rank, {.peers = &parts_->own, .clock = &parts_->clock, .lock = &parts_->lock},
            [&](Background& inner, int number) -> std::unique_ptr<Background> {
              if (number == RankView::kScoring) return nullptr;
              return std::make_unique<WrappedJobs>(
                  inner, [parts = parts_, number](Transport& below, const Background::Job& job) {
                    parts->run(number, below, job);
                  });
            }) {}

void WitnessedRank::fail(const std::exception_ptr& failure) {
  parts_->lock.fail(failure);
  parts_->record->stop();
}

}  // namespace lockstep
