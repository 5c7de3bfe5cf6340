#include "transport/simulated/mail.h"

#include <algorithm>
#include <cstring>

#include "transport/failure.h"
#include "transport/simulated/transport.h"

namespace lockstep {

void SimulatedMessage::land() { receiver->landed(*this); }

int SimulatedMessage::from() const { return sender->rank(); }

SimulatedMessage& SimulatedMessages::take() {
  if (!free_) {
    all_.push_back(std::make_unique<SimulatedMessage>());
    return *all_.back();
  }
  SimulatedMessage& message = *free_;
  free_ = message.next;
  message.next = nullptr;
  return message;
}

void SimulatedMessages::drop(SimulatedMessage& message) {
  if (message.flying || message.stream || message.send) return;
  message.kept.reset();
  message.next = free_;
  free_ = &message;
}

SimulatedStream& SimulatedMail::stream(int from, std::uint32_t key) {
  SimulatedStream& s = streams_[std::uint64_t(from) << 32 | key];
  s.key = key;
  return s;
}

bool SimulatedMail::queue(SimulatedMessage& m) {
  SimulatedStream& s = stream(m.from(), m.tag.key());
  m.stream = &s;
  (s.first ? s.last->next : s.first) = &m;
  s.last = &m;
  return s.messages++ < s.waiting;  // messages and receives of a stream meet in their order
}

void SimulatedMail::landed(SimulatedMessage& m, std::vector<SimulatedRequest*>& completed) {
  m.flying = false;
  if (m.stream)
    advance(*m.stream, &completed);
  else
    messages_.drop(m);
}

void SimulatedMail::lose(SimulatedMessage& m) {
  if (!m.stream) return;
  if (m.shelved) unshelve(m);
  SimulatedStream& s = *m.stream;
  SimulatedMessage* before = nullptr;
  for (auto* x = s.first; x != &m; x = x->next) before = x;
  (before ? before->next : s.first) = m.next;
  if (s.last == &m) s.last = before;
  m.next = nullptr;
  m.stream = nullptr;
  m.parked = false;
  --s.messages;
}

void SimulatedMail::shelve(SimulatedMessage& m) {
  Shelf& shelf = shelves_[m.tag.key()];
  m.shelved = true;
  m.earlier = shelf.last;
  (shelf.last ? shelf.last->later : shelf.first) = &m;
  shelf.last = &m;
}

void SimulatedMail::unshelve(SimulatedMessage& m) {
  Shelf& shelf = shelves_[m.tag.key()];
  (m.earlier ? m.earlier->later : shelf.first) = m.later;
  (m.later ? m.later->earlier : shelf.last) = m.earlier;
  m.shelved = false;
  m.earlier = m.later = nullptr;
}

void SimulatedMail::unqueue_first(SimulatedStream& s) {
  SimulatedMessage& m = *s.first;
  if (m.shelved) unshelve(m);
  s.first = m.next;
  if (!s.first) s.last = nullptr;
  m.next = nullptr;
  m.stream = nullptr;
  --s.messages;
}

SimulatedRequest* SimulatedMail::take_waiting(SimulatedStream& s) {
  SimulatedRequest* const r = s.first_waiting;
  if (!r) return nullptr;
  s.first_waiting = r->next;
  if (!s.first_waiting) s.last_waiting = nullptr;
  r->next = nullptr;
  --s.waiting;
  return r;
}

void SimulatedMail::advance(SimulatedStream& s, std::vector<SimulatedRequest*>* completed) {
  while (s.first && !s.first->flying && !s.first->parked && !s.first->shelved) {
    SimulatedMessage& m = *s.first;
    SimulatedRequest* r = take_waiting(s);
    if (!r) {
      shelve(m);
      return;
    }
    unqueue_first(s);
    deliver(m, *r);
    if (completed) completed->push_back(r);
  }
}

void SimulatedMail::deliver(SimulatedMessage& m, SimulatedRequest& r) {
  const std::size_t size = m.bytes.size;
  if (m.tag.format != r.tag.format) {
    r.error = std::make_unique<TransportError>(
        wrong_format(m.from(), m.tag.format, rank_, r.tag.format, r.tag));
  } else if (size > r.into.size) {
    r.error = std::make_unique<TransportError>(too_long(m.from(), size, rank_, r.into.size, r.tag));
  } else if (m.bytes.data && r.into.data && size > 0) {
    if (r.combine)
      r.combine(r.into.data, m.bytes.data, size);
    else
      copy(r.into.part(0, size), m.bytes);
  }
  r.arrival = {m.from(), size};
  r.complete = true;
  messages_.drop(m);
}

SimulatedMessage* SimulatedMail::post(SimulatedRequest& r) {
  SimulatedStream& s = stream(r.peer, r.tag.key());
  if (s.first && s.first->shelved) {
    SimulatedMessage& m = *s.first;
    unqueue_first(s);
    deliver(m, r);
    advance(s, nullptr);  // shelves the next: whoever waited would have got this one
    return nullptr;
  }
  (s.first_waiting ? s.last_waiting->next : s.first_waiting) = &r;
  s.last_waiting = &r;
  if (++s.waiting > s.messages) return nullptr;
  SimulatedMessage* m = s.first;
  for (std::size_t i = 1; i < s.waiting; ++i) m = m->next;
  return m->parked ? m : nullptr;
}

void SimulatedMail::withdraw(SimulatedRequest& r) {
  SimulatedStream& s = stream(r.peer, r.tag.key());
  SimulatedRequest* before = nullptr;
  for (auto* x = s.first_waiting; x != &r; x = x->next) before = x;
  (before ? before->next : s.first_waiting) = r.next;
  if (s.last_waiting == &r) s.last_waiting = before;
  r.next = nullptr;
  --s.waiting;
}

bool SimulatedMail::is_coming(const SimulatedRequest& r) {
  const SimulatedStream& s = stream(r.peer, r.tag.key());
  const SimulatedMessage* m = s.first;
  for (const auto* x = s.first_waiting; x != &r && m; x = x->next) m = m->next;
  return m != nullptr;
}

std::optional<Arrival> SimulatedMail::probe(int from, Tag tag) const {
  const auto is_here = [](const SimulatedStream& s) {
    return s.first && (s.first->shelved || (s.first->parked && s.first->due <= virtual_now()));
  };
  const SimulatedMessage* m = nullptr;
  if (from == kAnyRank) {
    if (const auto shelf = shelves_.find(tag.key()); shelf != shelves_.end())
      m = shelf->second.first;
    if (!m)
      for (const auto& [key, s] : streams_)
        if (s.key == tag.key() && is_here(s) && (!m || s.first->due < m->due)) m = s.first;
  } else if (const auto s = streams_.find(std::uint64_t(from) << 32 | tag.key());
             s != streams_.end() && is_here(s->second)) {
    m = s->second.first;
  }
  if (!m) return {};
  return Arrival{m->from(), m->bytes.size};
}

std::vector<SimulatedMessage*> SimulatedMail::close() {
  std::vector<SimulatedMessage*> parked;
  for (auto& [key, s] : streams_) {
    s.first_waiting = s.last_waiting = nullptr;
    s.waiting = 0;
    for (SimulatedMessage* m = s.first; m; m = m->next)
      if (m->parked) parked.push_back(m);
  }
  return parked;
}

}  // namespace lockstep
