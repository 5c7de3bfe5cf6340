// One rank's lane of shared memory. Each pair of ranks has two rings (ring.h), one each way; a line
// is a rank's end of both. What arrives goes to the inbox, which finds the receive that it is for.
#include "transport/shm/shm.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <list>
#include <optional>
#include <thread>
#include <utility>

#include "transport/awake_clock.h"
#include "transport/failure.h"
#include "transport/operations.h"
#include "transport/real_rank.h"
#include "transport/shm/window.h"

namespace lockstep {
namespace {

constexpr double kLookSeconds = 0.01;  // how often a sleeper looks who died
// How often a reference at a ring's end may find no receive before it is copied: fewer than a wait
// looks before it sleeps.
constexpr int kHoldings = 64;
// How long a peer may take to copy what is sent by reference before that is disowned.
constexpr double kCopySeconds = 1;

// An open operation of a lane.
struct ShmOperation : WireOperation {
  enum class Stage { waiting, streaming, done, failed };
  Stage stage = Stage::waiting;
  bool sends = false;
  ConstBytes out;         // what is sent
  std::size_t moved = 0;  // bytes so far
  std::size_t size = 0;   // of the message
  std::optional<TransportError> error;

  bool takes(int from, std::uint32_t key) const { return tag.key() == key && peer == from; }
  // The next bytes of its message.
  void fold(ConstBytes part) {
    if (part.size == 0) return;
    std::byte* at = into.data + moved;
    if (combine)
      combine(at, part.data, part.size);
    else
      std::memcpy(at, part.data, part.size);
    moved += part.size;
  }
};
using Stage = ShmOperation::Stage;

// A message that came before anyone asked for it: it is received into memory of its own.
struct ShmKept : ShmOperation {
  std::unique_ptr<std::byte[]> data;
};

// Who gets an arriving message: the receive posted first that takes it; or it is kept until one
// does.
class ShmInbox {
 public:
  explicit ShmInbox(int rank) : rank_(rank) {}

  // A receive is posted; what was kept for it is given at once.
  void post(ShmOperation& receive) {
    posted_.push_back(&receive);
    if (!kept_.empty()) give_kept();
  }
  // A receive ends early.
  void withdraw(ShmOperation& receive) { std::erase(posted_, &receive); }

  // Would this message find its receive?
  bool awaits(int from, const ShmFrame& frame) const {
    return first_for(from, frame.key) != posted_.end();
  }
  // Where it goes from now on. None: it is read and dropped (its receive failed).
  ShmOperation* begin(int from, const ShmFrame& frame) {
    const Tag tag{static_cast<Purpose>(frame.key >> 24), frame.key & 0xffffff, frame.format};
    if (const auto at = first_for(from, frame.key); at != posted_.end()) {
      ShmOperation* const receive = *at;
      posted_.erase(at);
      return match(*receive, tag, frame.size) ? receive : nullptr;
    }
    ShmKept& kept = kept_.emplace_back();
    kept.data = std::make_unique_for_overwrite<std::byte[]>(frame.size);
    kept.peer = from;
    kept.tag = tag;
    kept.size = frame.size;
    kept.into = {kept.data.get(), frame.size};
    return &kept;
  }
  // All its bytes are here.
  void finish(ShmOperation& landed) {
    landed.stage = Stage::done;
    if (!kept_.empty()) give_kept();
  }
  // They are not to be used: the sender has given them up.
  void drop(ShmOperation& landed) {
    landed.stage = Stage::failed;
    landed.error = departed(landed.peer, rank_, landed.tag);
    kept_.remove_if([&](const ShmKept& kept) { return &kept == &landed; });
  }

  const ShmKept* find(int from, Tag tag) const {
    for (const ShmKept& kept : kept_)
      if (kept.takes(from == kAnyRank ? kept.peer : from, tag.key())) return &kept;
    return nullptr;
  }

 private:
  std::vector<ShmOperation*>::const_iterator first_for(int from, std::uint32_t key) const {
    return std::ranges::find_if(posted_, [&](const auto* r) { return r->takes(from, key); });
  }

  // False: it doesn't fit, and the receive has failed.
  bool match(ShmOperation& receive, Tag tag, std::size_t size) const {
    receive.size = size;
    receive.stage = Stage::streaming;
    receive.error = misfit(receive.peer, tag.format, size, rank_, receive.tag, receive.into.size);
    if (receive.error) receive.stage = Stage::failed;
    return !receive.error;
  }

  // In the order the receives were posted. A message that is still arriving is given when it is
  // whole.
  void give_kept() {
    std::erase_if(posted_, [&](ShmOperation* receive) {
      const auto kept = std::ranges::find_if(
          kept_, [&](const ShmKept& k) { return receive->takes(k.peer, k.tag.key()); });
      if (kept == kept_.end() || kept->stage != Stage::done) return false;
      if (match(*receive, kept->tag, kept->size)) {
        receive->fold({kept->data.get(), kept->size});
        receive->stage = Stage::done;
      }
      kept_.erase(kept);
      return true;
    });
  }

  const int rank_;
  std::vector<ShmOperation*> posted_;  // receives without a message, in order
  std::list<ShmKept> kept_;            // in order of arrival
};

// One rank's end of its two rings with one peer: streams what is sent, hands over what arrives.
class ShmLine {
 public:
  // `inbox` and `windows` are this lane's and outlive the line.
  ShmLine(const ShmHost& host, int lane, int peer, ShmInbox& inbox, const ShmWindows& windows)
      : peer_(peer),
        sleeper_pays_(host.sleeper_pays()),
        inbox_(inbox),
        in_(&host.ring(lane, peer, host.rank())),
        out_(&host.ring(lane, host.rank(), peer)),
        seat_(&host.seat(lane, peer)),
        windows_(&windows) {}

  int peer() const { return peer_; }
  const ShmSeat& seat() const { return *seat_; }  // the peer's
  void send(ShmOperation& op) { outgoing_.push_back(&op); }

  // Ends an operation early: its memory is not used any more. True: nothing came of it. What is
  // half sent is copied, and sent from the copy.
  bool give_up(ShmOperation& op) {
    if (!op.sends || op.stage == Stage::waiting) {
      const bool nothing_came = landing_ != &op;
      forget(op);
      return nothing_came;
    }
    const auto referred =
        std::ranges::find_if(referred_, [&](const Referred& r) { return r.op == &op; });
    if (referred != referred_.end()) {
      const bool nothing_came = take_back(referred->until);
      forget(op);
      return nothing_came;
    }
    // The first in the queue: a frame that has begun must come to its end.
    orphan_ = std::make_unique<Orphan>();
    orphan_->rest.assign(op.out.data + op.moved, op.out.data + op.size);
    orphan_->op.stage = Stage::streaming;
    orphan_->op.out = {orphan_->rest.data(), orphan_->rest.size()};
    orphan_->op.size = orphan_->rest.size();
    outgoing_.front() = &orphan_->op;
    return false;
  }
  // The same, of a peer that is gone.
  void forget(ShmOperation& op) {
    std::erase(outgoing_, &op);
    std::erase_if(referred_, [&](const Referred& r) { return r.op == &op; });
    if (landing_ == &op) landing_ = nullptr;
  }

  // Ends what was sent by reference and is taken. True: something was.
  bool settle() {
    if (referred_.empty()) return false;
    bool moved = false;
    const std::uint64_t read = out_->read.load(std::memory_order_acquire);
    for (; !referred_.empty() && referred_.front().until <= read; referred_.pop_front()) {
      referred_.front().op->stage = Stage::done;
      moved = true;
    }
    return moved;
  }

  // Move what can be moved; true: something was. The peer is woken if it sleeps. Pulling stops
  // after a message, so that what its end sets free is posted before the next one comes.
  bool push() {
    bool moved = false;
    while (!outgoing_.empty()) {
      ShmOperation& op = *outgoing_.front();
      if (refer(op)) {
        moved = true;
        continue;
      }
      std::size_t filled = 0;
      if (op.stage == Stage::waiting) {
        const Bytes room = out_->room(0);
        if (room.size == 0) break;
        filled = begin(op, room, {});
      }
      const Bytes room = out_->room(filled);
      const std::size_t part = std::min({room.size, ShmRing::kPart, op.size - op.moved});
      if (part) std::memcpy(room.data, op.out.data + op.moved, part);
      op.moved += part;
      filled += padded(part);
      if (filled == 0) break;
      out_->publish(filled);
      moved = true;
      if (op.moved == op.size) {
        op.stage = Stage::done;
        outgoing_.pop_front();
        if (orphan_ && &orphan_->op == &op) orphan_.reset();
      }
    }
    if (moved) ring_bell();
    return moved;
  }
  bool pull() {
    bool moved = false;
    for (ConstBytes content = in_->content(); content.size; content = in_->content()) {
      if (!arriving_) {
        ShmFrame frame;
        std::memcpy(&frame, content.data, offsetof(ShmFrame, hold));
        if (frame.window) {
          moved = take_referred(frame);
          break;
        }
        in_->consume(sizeof frame);
        landing_ = inbox_.begin(peer_, frame);
        left_ = frame.size;
        arriving_ = true;
      } else {
        const std::size_t part = std::min({content.size, ShmRing::kPart, left_});
        if (landing_) landing_->fold(content.part(0, part));
        in_->consume(padded(part));
        left_ -= part;
      }
      moved = true;
      if (left_ > 0) continue;
      if (landing_) inbox_.finish(*std::exchange(landing_, nullptr));
      arriving_ = false;
      break;
    }
    if (moved) ring_bell();
    return moved;
  }

  void ring_bell() const {
    publisher_fence(sleeper_pays_);
    if (seat_->asleep.load(std::memory_order_relaxed) == 0) return;
    seat_->bell.fetch_add(1);
    futex_wake_all(seat_->bell);
  }

 private:
  // The rest of a message that was given up.
  struct Orphan {
    ShmOperation op;
    std::vector<std::byte> rest;
  };

  // Writes the frame, and returns its length. `where`: the bytes are there, and don't follow.
  static std::size_t begin(ShmOperation& op, Bytes room, const ShmReference& where) {
    const ShmFrame frame{op.size,      where.offset,  where.fd + 1,      where.pid,
                         op.tag.key(), op.tag.format, ShmFrame::offered, {}};
    std::memcpy(room.data, &frame, sizeof frame);
    op.stage = Stage::streaming;
    return sizeof frame;
  }

  // A message as large as the ring, which waits for its reader anyway, is not copied through it if
  // the reader can see it where it is.
  bool refer(ShmOperation& op) {
    if (op.stage != Stage::waiting || op.size < ShmRing::kBytes) return false;
    const auto where = windows_->reference_to(op.out, peer_);
    const Bytes room = out_->room(0);
    if (!where || room.size == 0) return false;
    out_->publish(begin(op, room, *where));
    referred_.push_back({&op, out_->written.load(std::memory_order_relaxed)});
    outgoing_.pop_front();
    return true;
  }

  // The peer reads the bytes where they are, which from now on may change. True: it never looked.
  bool take_back(std::uint64_t until) {
    const auto taken = [&] { return out_->read.load(std::memory_order_acquire) >= until; };
    std::byte* const frame = out_->at(until - sizeof(ShmFrame));
    if (taken()) return false;
    if (change_hold(frame, ShmFrame::offered, ShmFrame::taken_back)) return true;
    // It copies them at this moment, which takes as long as a copy does.
    for (const double since = wall_now(); !taken() && wall_now() < since + kCopySeconds;)
      std::this_thread::yield();
    if (!taken()) change_hold(frame, ShmFrame::claimed, ShmFrame::disowned);
    return false;
  }

  // False: nobody asks for it yet. It is likely that somebody will in a moment, and then it needs
  // no copy; but for long it must not stand in the way of others.
  bool take_referred(const ShmFrame& frame) {
    if (!inbox_.awaits(peer_, frame) && ++held_ < kHoldings) return false;
    held_ = 0;
    std::byte* const held = in_->at(in_->read.load(std::memory_order_relaxed));
    if (change_hold(held, ShmFrame::offered, ShmFrame::claimed)) {
      ShmOperation* const landing = inbox_.begin(peer_, frame);
      windows_->take(peer_, {frame.pid, frame.window - 1, frame.offset}, frame.size,
                     [&](ConstBytes bytes) {
                       if (landing) landing->fold(bytes);
                     });
      const bool taken = change_hold(held, ShmFrame::claimed, ShmFrame::taken);
      if (landing) taken ? inbox_.finish(*landing) : inbox_.drop(*landing);
    }
    in_->consume(sizeof frame);
    return true;
  }

  const int peer_;
  const bool sleeper_pays_;
  ShmInbox& inbox_;
  ShmRing *const in_, *const out_;
  ShmSeat* const seat_;
  const ShmWindows* windows_;
  std::deque<ShmOperation*> outgoing_;
  std::unique_ptr<Orphan> orphan_;  // the first of them
  // Sent by reference: ends when the peer has read the ring up to here.
  struct Referred {
    ShmOperation* op;
    std::uint64_t until;
  };
  std::deque<Referred> referred_;
  bool arriving_ = false;            // a message is half read
  std::size_t left_ = 0;             // of its bytes
  ShmOperation* landing_ = nullptr;  // where it goes; none: it is dropped
  int held_ = 0;                     // how often a reference at the ring's end found no receive
};

class Shm final : public Transport {
 public:
  Shm(std::shared_ptr<ShmHost> host, int lane)
      : host_(std::move(host)),
        lane_(lane),
        rank_(host_->options().rank),
        size_(static_cast<int>(host_->options().host_of.size())),
        seat_(host_->seat(lane, rank_)),
        inbox_(rank_) {
    for (const int peer : host_->locals())
      if (peer != rank_) lines_.emplace_back(*host_, lane, peer, inbox_, windows_);
    seat_.state = ShmSeat::present;
  }

  ~Shm() override {
    const Blame blame = host_->deaths().blame();
    seat_.blamed = static_cast<std::uint32_t>(blame.rank + 1);
    seat_.blamed_died = blame.died;
    seat_.state = ShmSeat::left;
    for (ShmLine& line : lines_) line.ring_bell();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int host_of(int rank) const override { return host_->options().host_of.at(rank); }
  double now() const override { return wall_now(); }
  double patience_seconds() const override { return host_->options().patience_seconds; }

  std::vector<int> dead_peers() override {
    host_->look_for_deaths();
    return host_->deaths().list();
  }

  Request post_send(int to, Tag tag, ConstBytes bytes) override {
    check_peer(to, rank_, size(), "send to");
    check_real(bytes);
    ShmLine& line = line_to(to);
    ShmOperation& op = operations_.add(to, tag);
    op.sends = true;
    op.out = bytes;
    op.size = bytes.size;
    line.send(op);
    line.push();
    return {op.id};
  }

  Request post_recv(int from, Tag tag, Bytes into, Combine combine) override {
    check_peer(from, rank_, size(), "receive from");
    line_to(from);
    check_real(into);
    ShmOperation& op = operations_.add(from, tag, into, combine);
    inbox_.post(op);
    return {op.id};
  }

  Ending wait_any(std::span<const Request> requests, Deadline deadline) override {
    Backoff backoff(host_->crowded());
    std::optional<Countdown> time;  // from the first sleep on
    for (;;) {
      const bool moved = progress();
      if (auto ended = operations_.first(requests, [&](auto& op) { return take(op); }))
        return std::move(*ended);
      if (moved) {
        backoff.reset();
      } else if (backoff.pause()) {
        if (!time) time.emplace(deadline.at - now());
        if (auto failed = sleep(requests, *time)) return std::move(*failed);
      }
    }
  }

  std::optional<Ending> test(Request request) override {
    progress();
    ShmOperation& op = operations_.find(request);
    if (auto ended = take(op)) return ended;
    if (auto gone = hopeless(op)) return gone;
    return take(op);
  }

  std::optional<Arrival> probe(int from, Tag tag) override {
    progress();
    const ShmKept* kept = inbox_.find(from, tag);
    if (!kept) return {};
    return Arrival{kept->peer, kept->size};
  }

  bool give_up(Request request) noexcept override {
    ShmOperation* const op = operations_.find_open(request);
    if (!op) return true;
    bool nothing_came = op->is_bell;
    if (!op->is_bell && (op->stage == Stage::waiting || op->stage == Stage::streaming)) {
      inbox_.withdraw(*op);
      nothing_came = line_to(op->peer).give_up(*op);
    }
    operations_.end(*op);
    return nothing_came;
  }

  Request post_bell() override {
    ShmOperation& op = operations_.add_bell(rank_);
    op.sends = true;
    return {op.id};
  }
  void ring() override {
    rings_.fetch_add(1);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (seat_.asleep.load() == 0) return;
    seat_.bell.fetch_add(1);
    futex_wake_all(seat_.bell);
  }

  std::unique_ptr<Window> open_window(std::size_t bytes, std::span<const int> members) override {
    return windows_.open(bytes, members);
  }

  Window* window_at(const void* address) override { return windows_.at(address); }

 private:
  ShmLine& line_to(int peer) {
    for (ShmLine& line : lines_)
      if (line.peer() == peer) return line;
    throw UsageError(fmt::format(
        "rank {} is on another host than rank {}: shared memory doesn't reach it", peer, rank_));
  }

  bool progress() {
    bool moved = false;
    for (ShmLine& line : lines_) {
      // What has ended may set a receive free, to be posted before its message is looked at.
      if (line.settle()) {
        moved = true;
        continue;
      }
      moved |= line.pull();
      moved |= line.push();
    }
    return moved;
  }

  std::optional<Ending> take(ShmOperation& op) {
    if (op.stage == Stage::failed) {
      Ending ending{0, {}, std::move(op.error)};
      operations_.end(op);
      if (!ending.gone()) throw TransportError(*ending.failure);  // a mismatch
      return ending;
    }
    if (op.is_bell && rings_.load() > 0) {
      rings_.fetch_sub(1);
      op.stage = Stage::done;
    }
    if (op.stage != Stage::done) return {};
    const Arrival arrival{op.sends ? rank_ : op.peer, op.size};
    operations_.end(op);
    return Ending{0, arrival};
  }

  // Ends the operation if its peer is gone.
  std::optional<Ending> hopeless(ShmOperation& op) {
    if (op.is_bell) return {};
    ShmLine& line = line_to(op.peer);
    if (!host_->deaths().dead(op.peer) && line.seat().state.load() != ShmSeat::left) return {};
    while (progress()) {  // what it sent before it went still counts
    }
    if (op.stage == Stage::done || op.stage == Stage::failed) return {};
    const TransportError error = shm_gone(*host_, line.seat(), op.peer, op.tag);
    host_->deaths().blame(blame_of(error));
    inbox_.withdraw(op);
    line.forget(op);
    operations_.end(op);
    return Ending{0, {}, error};
  }

  // The slow part of waiting: looks who died, then sleeps until a peer rings, but not for long.
  std::optional<Ending> sleep(std::span<const Request> requests, Countdown& time) {
    host_->look_for_deaths();
    if (auto gone = operations_.first(requests, [&](auto& op) { return hopeless(op); }))
      return gone;
    const double left = time.left();
    if (left <= 0) return operations_.late(requests, rank_);
    const std::uint32_t bell = seat_.bell.load();
    seat_.asleep = 1;
    sleeper_fence();
    const bool rung = rings_.load() > 0 && std::ranges::any_of(requests, [&](const Request& r) {
                        return operations_.find(r).is_bell;
                      });
    if (!progress() && !rung) futex_wait(seat_.bell, bell, std::min(left, kLookSeconds));
    seat_.asleep = 0;
    return {};
  }

  const std::shared_ptr<ShmHost> host_;
  const int lane_, rank_, size_;
  ShmSeat& seat_;
  ShmInbox inbox_;
  ShmWindows windows_{*this, *host_, lane_, [this] { progress(); }};
  std::vector<ShmLine> lines_;
  Operations<ShmOperation> operations_;
  std::atomic<std::uint32_t> rings_ = 0;  // not yet heard
};

}  // namespace

std::unique_ptr<Transport> open_shm(std::shared_ptr<ShmHost> host, int lane) {
  return std::make_unique<Shm>(std::move(host), lane);
}

}  // namespace lockstep
