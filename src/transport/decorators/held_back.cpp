#include "transport/decorators/held_back.h"

#include <algorithm>

namespace lockstep {

// Closer than any clock of ours: a sleep that ends this much early has ended.
constexpr double kResolution = 1e-9;

Request HeldBack::post_recv(int from, Tag tag, Bytes into, Combine combine) {
  const Request request = inner_.post_recv(from, tag, into, combine);
  posted_.push_back({request.id, from, tag.key()});
  return request;
}

void HeldBack::forget(Request request) {
  std::erase_if(posted_, [&](const Posted& p) { return p.id == request.id; });
}

void HeldBack::completed(Request request, const Arrival& arrival) {
  const auto posted = std::ranges::find(posted_, request.id, &Posted::id);
  // A send is over when it is over below.
  held_[request.id] = {arrival, posted == posted_.end() ? now() : due(*posted, arrival)};
  forget(request);
}

std::optional<Arrival> HeldBack::take(Request request) {
  const auto entry = held_.find(request.id);
  if (entry == held_.end() || entry->second.due > now() + kResolution) return {};
  const Arrival arrival = entry->second.arrival;
  held_.erase(entry);
  return arrival;
}

Ending HeldBack::wait_any(std::span<const Request> requests, Deadline deadline) {
  for (;;) {
    double wake = deadline.at;
    std::vector<Request> open;
    std::vector<std::size_t> which;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      if (const auto arrival = take(requests[i])) return {i, *arrival};
      const auto held = held_.find(requests[i].id);
      if (held != held_.end()) {
        wake = std::min(wake, held->second.due);
        continue;
      }
      open.push_back(requests[i]);
      which.push_back(i);
    }
    if (open.empty() && wake < deadline.at) {
      sleep_(std::max(0.0, wake - now()));
      continue;
    }
    if (open.empty()) {
      const int from = held_.at(requests[0].id).arrival.from;
      sleep_(std::max(0.0, deadline.at - now()));
      return {0,
              {},
              TransportError(TransportError::Kind::deadline, from,
                             fmt::format("rank {} waited past its deadline for a message of rank "
                                         "{} that is held back",
                                         rank(), from))};
    }
    Ending ending = inner_.wait_any(open, {wake});
    if (ending.arrived()) {
      completed(open[ending.index], ending.arrival);
      continue;
    }
    if (ending.late() && wake < deadline.at) continue;  // something held is due
    if (ending.gone()) forget(open[ending.index]);
    ending.index = which[ending.index];
    return ending;
  }
}

std::optional<Ending> HeldBack::test(Request request) {
  if (!held_.contains(request.id)) {
    auto ending = inner_.test(request);
    if (ending && ending->gone()) {
      forget(request);
      return ending;
    }
    if (ending) completed(request, ending->arrival);
  }
  if (const auto arrival = take(request)) return Ending{0, *arrival};
  return {};
}

bool HeldBack::give_up(Request request) noexcept {
  if (held_.erase(request.id)) return false;
  const bool nothing_came = inner_.give_up(request);
  const auto posted = std::ranges::find(posted_, request.id, &Posted::id);
  if (posted != posted_.end() && !nothing_came) lost(*posted);
  forget(request);
  return nothing_came;
}

}  // namespace lockstep
