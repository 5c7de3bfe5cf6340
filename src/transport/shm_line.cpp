#include "transport/shm_line.h"

#include <algorithm>
#include <cstring>

#include "transport/futex.h"

namespace lockstep {

using Stage = ShmOperation::Stage;

namespace {
// Fewer than a wait looks before it sleeps.
constexpr int kHoldings = 64;
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

void ShmLine::withdraw(ShmOperation& op) {
  std::erase(outgoing_, &op);
  std::erase_if(referred_, [&](const Referred& r) { return r.op == &op; });
  if (landing_.receive == &op) landing_.receive = nullptr;
}

// A message as large as the ring, which waits for its reader anyway, is not copied through it if
// the reader can see it where it is.
bool ShmLine::refer(ShmOperation& op) {
  if (op.stage != Stage::waiting || op.size < ShmRing::kBytes) return false;
  const auto where = windows_->reference_to(op.out, peer_);
  const Bytes room = out_->room(0);
  if (!where || room.size == 0) return false;
  const ShmFrame frame{
      op.size, where->offset, where->fd + 1, where->pid, op.tag.key(), op.tag.format, {}};
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
      const ShmFrame frame{op.size, 0, 0, 0, op.tag.key(), op.tag.format, {}};
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
  const ShmLanding landing = inbox_.begin(peer_, frame);
  windows_->take(peer_, {frame.pid, frame.window - 1, frame.offset}, frame.size,
                 [&](ConstBytes bytes) { ShmInbox::land(landing, bytes); });
  inbox_.finish(landing);
  in_->consume(sizeof frame);
  return true;
}

bool ShmLine::pull() {
  bool moved = false;
  for (ConstBytes content = in_->content(); content.size; content = in_->content()) {
    if (!arriving_) {
      ShmFrame frame;
      std::memcpy(&frame, content.data, sizeof frame);
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
