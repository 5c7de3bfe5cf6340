#include "transport/shm/shm.h"

#include <unistd.h>

#include <algorithm>

#include "transport/awake_clock.h"
#include "transport/operations.h"
#include "transport/real_rank.h"
#include "transport/shm/line.h"
#include "transport/shm/window.h"

namespace lockstep {
namespace {

using Stage = ShmOperation::Stage;

constexpr double kLookSeconds = 0.01;  // how often a sleeper looks who died

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
    check_real(bytes.hollow());
    ShmLine& line = line_to(to);
    ShmOperation& op = operations_.add();
    op.sends = true;
    op.peer = to;
    op.tag = tag;
    op.out = bytes;
    op.size = bytes.size;
    line.send(op);
    line.push();
    return {op.id};
  }

  Request post_recv(int from, Tag tag, Bytes into, Combine combine) override {
    check_peer(from, rank_, size(), "receive from");
    line_to(from);
    check_real(into.hollow());
    ShmOperation& op = operations_.add();
    op.peer = from;
    op.tag = tag;
    op.into = into;
    op.combine = combine;
    inbox_.post(op);
    return {op.id};
  }

  Ending wait_any(std::span<const Request> requests, Deadline deadline) override {
    Backoff backoff(host_->crowded());
    std::optional<Countdown> time;  // from the first sleep on
    for (;;) {
      const bool moved = progress();
      for (std::size_t i = 0; i < requests.size(); ++i)
        if (auto ended = take(operations_.find(requests[i]))) {
          ended->index = i;
          return std::move(*ended);
        }
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
    if (auto error = hopeless(op)) return Ending{0, {}, std::move(error)};
    return take(op);
  }

  std::optional<Arrival> probe(int from, Tag tag) override {
    progress();
    const ShmKept* kept = inbox_.find(from, tag);
    if (!kept) return {};
    return Arrival{kept->from, kept->size};
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
    ShmOperation& op = operations_.add();
    op.is_bell = op.sends = true;
    op.peer = rank_;
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

  static void check_real(bool hollow) {
    if (hollow) throw UsageError("hollow values have no bytes to send: simulate them instead");
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
      if (line.has_outgoing()) moved |= line.push();
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
  std::optional<TransportError> hopeless(ShmOperation& op) {
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
    return error;
  }

  // The slow part of waiting: looks who died, then sleeps until a peer rings, but not for long.
  std::optional<Ending> sleep(std::span<const Request> requests, Countdown& time) {
    host_->look_for_deaths();
    for (std::size_t i = 0; i < requests.size(); ++i)
      if (auto error = hopeless(operations_.find(requests[i])))
        return Ending{i, {}, std::move(error)};
    const double left = time.left();
    if (left <= 0) {
      const ShmOperation& op = operations_.find(requests[0]);
      return Ending{0, {}, too_late(op.peer, rank_, op.tag)};
    }
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
