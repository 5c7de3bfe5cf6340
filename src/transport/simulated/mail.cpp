#include "transport/simulated/mail.h"

#include <tuple>
#include <utility>

#include "transport/failure.h"
#include "transport/simulated/transport.h"

namespace lockstep {

void SimulatedMessage::land() { receiver->landed(*this); }

int SimulatedMessage::from() const { return sender->rank(); }

SimulatedStream& SimulatedMail::stream(int from, std::uint32_t key) {
  SimulatedStream& s = streams_[std::uint64_t(from) << 32 | key];
  s.key = key;
  return s;
}

bool SimulatedMail::queue(SimulatedMessage& m) {
  SimulatedStream& s = stream(m.from(), m.tag.key());
  m.stream = &s;
  s.messages.push_back(m);
  return s.messages.size <= s.waiting.size;  // those of a stream meet in their order
}

void SimulatedMail::landed(SimulatedMessage& m, std::vector<SimulatedRequest*>& completed) {
  m.flying = false;
  if (m.stream)
    advance(*m.stream, &completed);
  else
    messages_.drop(m);
}

void SimulatedMail::unqueue(SimulatedMessage& m) {
  if (!m.stream) return;
  std::exchange(m.stream, nullptr)->messages.erase(m);
  m.parked = false;
}

void SimulatedMail::advance(SimulatedStream& s, std::vector<SimulatedRequest*>* completed) {
  for (;;) {
    SimulatedMessage* const m = s.messages.first;
    if (!m || m->flying || m->parked || m->here) return;
    SimulatedRequest* const r = s.waiting.first;
    if (!r) {
      m->here = ++count_;
      return;
    }
    s.waiting.erase(*r);
    deliver(*m, *r);
    if (completed) completed->push_back(r);
  }
}

void SimulatedMail::deliver(SimulatedMessage& m, SimulatedRequest& r) {
  unqueue(m);
  const std::size_t size = m.bytes.size;
  if (auto error = misfit(m.from(), m.tag.format, size, rank_, r.tag, r.into.size)) {
    r.error = std::make_unique<TransportError>(std::move(*error));
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
  if (s.messages.first && s.messages.first->here) {
    deliver(*s.messages.first, r);
    advance(s, nullptr);  // the next is here now: whoever waited would have got this one
    return nullptr;
  }
  s.waiting.push_back(r);
  if (s.waiting.size > s.messages.size) return nullptr;
  SimulatedMessage* m = s.messages.first;
  for (std::size_t i = 1; i < s.waiting.size; ++i) m = m->next;
  return m->parked ? m : nullptr;
}

void SimulatedMail::withdraw(SimulatedRequest& r) { stream(r.peer, r.tag.key()).waiting.erase(r); }

bool SimulatedMail::is_coming(const SimulatedRequest& r) {
  const SimulatedStream& s = stream(r.peer, r.tag.key());
  const SimulatedMessage* m = s.messages.first;
  for (const auto* x = s.waiting.first; x != &r && m; x = x->next) m = m->next;
  return m != nullptr;
}

std::optional<Arrival> SimulatedMail::probe(int from, Tag tag) const {
  const SimulatedMessage* found = nullptr;
  const auto look_at = [&](const SimulatedStream& s) {
    const SimulatedMessage* const m = s.messages.first;
    if (!m || !(m->here || (m->parked && m->due <= virtual_now()))) return;
    // Those that are here go before those that wait for their receives.
    const auto place = [](const SimulatedMessage& x) {
      return std::tuple(x.here == 0, x.here, x.due);
    };
    if (!found || place(*m) < place(*found)) found = m;
  };
  if (from == kAnyRank) {
    for (const auto& [key, s] : streams_)
      if (s.key == tag.key()) look_at(s);
  } else if (const auto s = streams_.find(std::uint64_t(from) << 32 | tag.key());
             s != streams_.end()) {
    look_at(s->second);
  }
  if (!found) return {};
  return Arrival{found->from(), found->bytes.size};
}

std::vector<SimulatedMessage*> SimulatedMail::close() {
  std::vector<SimulatedMessage*> parked;
  for (auto& [key, s] : streams_) {
    s.waiting = {};
    for (SimulatedMessage* m = s.messages.first; m; m = m->next)
      if (m->parked) parked.push_back(m);
  }
  return parked;
}

}  // namespace lockstep
