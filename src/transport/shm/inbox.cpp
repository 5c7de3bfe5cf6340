#include "transport/shm/inbox.h"

#include <algorithm>
#include <cstring>

#include "transport/failure.h"

namespace lockstep {
namespace {

using Stage = ShmOperation::Stage;

bool takes(const ShmOperation& receive, int from, std::uint32_t key) {
  return receive.tag.key() == key && receive.peer == from;
}

void fold(ShmOperation& receive, ConstBytes part) {
  if (part.size == 0) return;
  std::byte* at = receive.into.data + receive.moved;
  if (receive.combine)
    receive.combine(at, part.data, part.size);
  else
    std::memcpy(at, part.data, part.size);
  receive.moved += part.size;
}

}  // namespace

void ShmInbox::post(ShmOperation& receive) {
  posted_.push_back(&receive);
  if (!kept_.empty()) give_kept();
}

bool ShmInbox::awaits(int from, const ShmFrame& frame) const {
  return std::any_of(posted_.begin(), posted_.end(),
                     [&](const ShmOperation* receive) { return takes(*receive, from, frame.key); });
}

ShmLanding ShmInbox::begin(int from, const ShmFrame& frame) {
  const Tag tag{static_cast<Purpose>(frame.key >> 24), frame.key & 0xffffff, frame.format};
  for (auto at = posted_.begin(); at != posted_.end(); ++at) {
    ShmOperation& receive = **at;
    if (!takes(receive, from, frame.key)) continue;
    posted_.erase(at);
    if (!match(receive, from, tag, frame.size)) return {};
    return {&receive, nullptr};
  }
  kept_.push_back(
      {from, tag, frame.size, 0, std::make_unique_for_overwrite<std::byte[]>(frame.size)});
  return {nullptr, &kept_.back()};
}

// False: it doesn't fit, and the receive has failed.
bool ShmInbox::match(ShmOperation& receive, int from, Tag tag, std::size_t size) const {
  receive.size = size;
  receive.stage = Stage::streaming;
  if (tag.format != receive.tag.format)
    receive.error = wrong_format(from, tag.format, rank_, receive.tag.format, receive.tag);
  else if (size > receive.into.size)
    receive.error = too_long(from, size, rank_, receive.into.size, receive.tag);
  if (receive.error) receive.stage = Stage::failed;
  return !receive.error;
}

void ShmInbox::land(ShmLanding landing, ConstBytes part) {
  if (landing.receive) {
    fold(*landing.receive, part);
  } else if (landing.kept && part.size) {
    std::memcpy(landing.kept->data.get() + landing.kept->moved, part.data, part.size);
    landing.kept->moved += part.size;
  }
}

void ShmInbox::finish(ShmLanding landing) {
  if (landing.receive) landing.receive->stage = Stage::done;
  if (landing.kept) give_kept();
}

void ShmInbox::drop(ShmLanding landing) {
  if (landing.receive) {
    landing.receive->stage = Stage::failed;
    landing.receive->error = departed(landing.receive->peer, rank_, landing.receive->tag);
  }
  if (landing.kept) kept_.remove_if([&](const ShmKept& kept) { return &kept == landing.kept; });
}

// In the order the receives were posted. A message that is still arriving is given when it is
// whole.
void ShmInbox::give_kept() {
  for (auto at = posted_.begin(); at != posted_.end();) {
    ShmOperation& receive = **at;
    const auto kept = std::find_if(kept_.begin(), kept_.end(), [&](const ShmKept& k) {
      return takes(receive, k.from, k.tag.key());
    });
    if (kept == kept_.end() || kept->moved < kept->size) {
      ++at;
      continue;
    }
    if (match(receive, kept->from, kept->tag, kept->size)) {
      fold(receive, {kept->data.get(), kept->size});
      receive.stage = Stage::done;
    }
    kept_.erase(kept);
    at = posted_.erase(at);
  }
}

const ShmKept* ShmInbox::find(int from, Tag tag) const {
  for (const ShmKept& kept : kept_)
    if (kept.tag.key() == tag.key() && (from == kAnyRank || from == kept.from)) return &kept;
  return nullptr;
}

}  // namespace lockstep
