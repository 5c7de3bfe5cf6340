#include "transport/held_back.h"

#include <algorithm>

namespace lockstep {

// Closer than any clock of ours: a sleep that ends this much early has ended.
constexpr double kResolution = 1e-9;

Request HeldBack::recv(int from, Tag tag, Bytes into, Combine combine) {
  const Request request = inner_.recv(from, tag, into, combine);
  posted_.push_back({request.id, from, tag.key()});
  return request;
}

void HeldBack::forget(Request request) {
  std::erase_if(posted_, [&](const Posted& p) { return p.id == request.id; });
}

void HeldBack::completed(Request request, const Arrival& arrival) {
  const auto entry = std::find_if(posted_.begin(), posted_.end(),
                                  [&](const Posted& p) { return p.id == request.id; });
  if (entry == posted_.end()) {  // a send: it is over when it is over below
    held_[request.id] = {arrival, now()};
    return;
  }
  // An any-source receive posted before this one has its message too; due() has to see that first.
  const Posted posted = *entry;
  std::vector<Request> earlier;
  for (auto p = posted_.begin(); p != entry; ++p)
    if (p->from == kAnyRank && p->key == posted.key) earlier.push_back({p->id});
  for (const Request& r : earlier)
    if (const auto theirs = inner_.test(r)) completed(r, *theirs);
  held_[request.id] = {arrival, due(posted, arrival)};
  forget(request);
}

std::optional<Arrival> HeldBack::take(Request request) {
  const auto entry = held_.find(request.id);
  if (entry == held_.end() || entry->second.due > now() + kResolution) return {};
  const Arrival arrival = entry->second.arrival;
  held_.erase(entry);
  return arrival;
}

std::size_t HeldBack::wait_any(std::span<const Request> requests, Deadline deadline,
                               Arrival* arrival) {
  for (;;) {
    double wake = deadline.at;
    std::vector<Request> open;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      if (const auto ended = take(requests[i])) {
        if (arrival) *arrival = *ended;
        return i;
      }
      const auto held = held_.find(requests[i].id);
      if (held == held_.end())
        open.push_back(requests[i]);
      else
        wake = std::min(wake, held->second.due);
    }
    if (open.empty() && wake < deadline.at) {
      sleep_(std::max(0.0, wake - now()));
      continue;
    }
    if (open.empty()) {
      const Held& first = held_.at(requests[0].id);
      sleep_(std::max(0.0, deadline.at - now()));
      throw TransportError(
          TransportError::Kind::deadline, first.arrival.from,
          fmt::format("rank {} waited past its deadline for a message of rank {} that is held back",
                      rank(), first.arrival.from));
    }
    try {
      Arrival how;
      const std::size_t index = inner_.wait_any(open, {wake}, &how);
      completed(open[index], how);
    } catch (const TransportError& error) {
      const bool early = error.kind() == TransportError::Kind::deadline && wake < deadline.at;
      if (!early) throw;  // else something held is due
    }
  }
}

std::optional<Arrival> HeldBack::test(Request request) {
  if (!held_.contains(request.id))
    if (const auto arrival = inner_.test(request)) completed(request, *arrival);
  return take(request);
}

bool HeldBack::cancel(Request request) {
  if (held_.erase(request.id)) return false;
  // What is there already is taken by test, so that due() gets to know of it.
  const auto entry = std::find_if(posted_.begin(), posted_.end(),
                                  [&](const Posted& p) { return p.id == request.id; });
  if (entry == posted_.end()) return inner_.cancel(request);
  bool cancelled = true;
  try {
    if (const auto arrival = inner_.test(request)) {
      due(*entry, *arrival);
      cancelled = false;
    } else {
      cancelled = inner_.cancel(request);
    }
  } catch (const TransportError&) {  // from test: it could not complete, and took no message
  }
  forget(request);
  return cancelled;
}

}  // namespace lockstep
