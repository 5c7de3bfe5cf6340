#include "transport/shm/line.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "transport/real_rank.h"

namespace lockstep {

using Stage = ShmOperation::Stage;

namespace {
// Fewer than a wait looks before it sleeps.
constexpr int kHoldings = 64;
// How long a peer may take to copy what is sent by reference before that is disowned.
constexpr double kCopySeconds = 1;
}  // namespace

ShmLine::ShmLine(const ShmHost& host, int lane, int peer, ShmInbox& inbox,
                 const ShmWindows& windows)
    : peer_(peer),
      sleeper_pays_(host.sleeper_pays()),
      inbox_(inbox),
      in_(&host.ring(lane, peer, host.options().rank)),
      out_(&host.ring(lane, host.options().rank, peer)),
      seat_(&host.seat(lane, peer)),
      windows_(&windows) {}

void ShmLine::forget(ShmOperation& op) {
  std::erase(outgoing_, &op);
  std::erase_if(referred_, [&](const Referred& r) { return r.op == &op; });
  if (landing_.receive == &op) landing_.receive = nullptr;
}

bool ShmLine::give_up(ShmOperation& op) {
  if (!op.sends) {
    const bool nothing_came = landing_.receive != &op;
    forget(op);
    return nothing_came;
  }
  if (op.stage == Stage::waiting) {
    forget(op);
    return true;
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

// The peer reads the bytes where they are, which from now on may change. True: it never looked.
bool ShmLine::take_back(std::uint64_t until) {
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

// A message as large as the ring, which waits for its reader anyway, is not copied through it if
// the reader can see it where it is.
bool ShmLine::refer(ShmOperation& op) {
  if (op.stage != Stage::waiting || op.size < ShmRing::kBytes) return false;
  const auto where = windows_->reference_to(op.out, peer_);
  const Bytes room = out_->room(0);
  if (!where || room.size == 0) return false;
  const ShmFrame frame{op.size,      where->offset, where->fd + 1,     where->pid,
                       op.tag.key(), op.tag.format, ShmFrame::offered, {}};
  std::memcpy(room.data, &frame, sizeof frame);
  out_->publish(sizeof frame);
  op.stage = Stage::streaming;
  referred_.push_back({&op, out_->written.load(std::memory_order_relaxed)});
  outgoing_.pop_front();
  return true;
}

bool ShmLine::settle() {
  if (referred_.empty()) return false;
  bool moved = false;
  const std::uint64_t read = out_->read.load(std::memory_order_acquire);
  for (; !referred_.empty() && referred_.front().until <= read; referred_.pop_front()) {
    referred_.front().op->stage = Stage::done;
    moved = true;
  }
  return moved;
}

bool ShmLine::push() {
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
      const ShmFrame frame{op.size, 0, 0, 0, op.tag.key(), op.tag.format, ShmFrame::offered, {}};
      std::memcpy(room.data, &frame, sizeof frame);
      filled = sizeof frame;
      op.stage = Stage::streaming;
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

// False: nobody asks for it yet. It is likely that somebody will in a moment, and then it needs no
// copy; but for long it must not stand in the way of others.
bool ShmLine::take_referred(const ShmFrame& frame) {
  if (!inbox_.awaits(peer_, frame) && ++held_ < kHoldings) return false;
  held_ = 0;
  std::byte* const held = in_->at(in_->read.load(std::memory_order_relaxed));
  if (change_hold(held, ShmFrame::offered, ShmFrame::claimed)) {
    const ShmLanding landing = inbox_.begin(peer_, frame);
    windows_->take(peer_, {frame.pid, frame.window - 1, frame.offset}, frame.size,
                   [&](ConstBytes bytes) { ShmInbox::land(landing, bytes); });
    if (change_hold(held, ShmFrame::claimed, ShmFrame::taken))
      inbox_.finish(landing);
    else
      inbox_.drop(landing);
  }
  in_->consume(sizeof frame);
  return true;
}

bool ShmLine::pull() {
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
      ShmInbox::land(landing_, content.part(0, part));
      in_->consume(padded(part));
      left_ -= part;
    }
    moved = true;
    if (left_ > 0) continue;
    inbox_.finish(landing_);
    landing_ = {};
    arriving_ = false;
    break;
  }
  if (moved) ring_bell();
  return moved;
}

void ShmLine::ring_bell() const {
  publisher_fence(sleeper_pays_);
  if (seat_->asleep.load(std::memory_order_relaxed) == 0) return;
  seat_->bell.fetch_add(1);
  futex_wake_all(seat_->bell);
}

}  // namespace lockstep
