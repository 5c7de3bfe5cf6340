#include "transport/simulated_transport.h"

#include <algorithm>

#include "transport/failure.h"

namespace lockstep {

SimulatedRequest& SimulatedTransport::open_request(bool is_send, int peer, Tag tag) {
  if (free_.empty()) {
    requests_.push_back(std::make_unique<SimulatedRequest>());
    requests_.back()->index = static_cast<std::uint32_t>(requests_.size() - 1);
    free_.push_back(requests_.back().get());
  }
  SimulatedRequest& r = *free_.back();
  free_.pop_back();
  ++r.generation;
  r.open = true;
  r.complete = r.awaited = r.is_bell = false;
  r.is_send = is_send;
  r.peer = peer;
  r.tag = tag;
  return r;
}

Request SimulatedTransport::handle(const SimulatedRequest& r) const {
  return {std::uint64_t(r.generation) << 32 | r.index};
}

SimulatedRequest& SimulatedTransport::find(Request request) {
  const std::size_t index = request.id & 0xffffffff;
  if (index < requests_.size() && requests_[index]->open &&
      requests_[index]->generation == request.id >> 32)
    return *requests_[index];
  throw InternalError(fmt::format("request {} of rank {} is not open", request.id, rank_));
}

Request SimulatedTransport::send(int to, Tag tag, ConstBytes bytes) {
  check_peer(to, rank_, size(), "send to");
  SimulatedRequest& r = open_request(true, to, tag);
  r.arrival = {rank_, bytes.size};
  if (world_.fate(to).died) return handle(r);  // fails when it is waited for
  SimulatedMessage& m = world_.messages.take();
  r.message = &m;
  m.sender = this;
  m.receiver = &world_.lane(to, lane_);
  m.tag = tag;
  m.bytes = bytes;
  m.send = &r;
  m.due = now() + world_.network.latency_s(rank_, to);
  const bool taken = m.receiver->mail_.queue(m);
  m.parked = !taken && bytes.size > kEagerBytes && lane_ != kScoringLane &&
             host_of(to) != host_of(rank_) && !world_.fate(to).gone;
  if (!m.parked) fly(m);
  return handle(r);
}

void SimulatedTransport::fly(SimulatedMessage& m) {
  m.parked = false;
  m.flying = true;
  const int lane = m.sender->lane_;
  world_.network.fly({m.from(), m.receiver->rank_, lane}, lane == kScoringLane ? 0 : m.bytes.size,
                     m.due, m);
}

Request SimulatedTransport::recv(int from, Tag tag, Bytes into, Combine combine) {
  if (from != kAnyRank) check_peer(from, rank_, size(), "receive from");
  SimulatedRequest& r = open_request(false, from, tag);
  r.into = into;
  r.combine = combine;
  if (SimulatedMessage* parked = mail_.post(r)) fly(*parked);
  return handle(r);
}

void SimulatedTransport::landed(SimulatedMessage& m) {
  if (m.send) m.sender->complete(*m.send);
  completed_.clear();
  mail_.landed(m, completed_);
  for (SimulatedRequest* r : completed_) complete(*r);
}

void SimulatedTransport::complete(SimulatedRequest& r) {
  r.complete = true;
  if (r.awaited) actor_.wake();
}

void SimulatedTransport::end(SimulatedRequest& r) {
  if (SimulatedMessage* m = std::exchange(r.message, nullptr)) {
    m->send = nullptr;
    const bool wanted = m->stream && !world_.fate(r.peer).gone;
    if (wanted && m->bytes.data && m->bytes.size > 0) {
      m->kept.reset(new std::byte[m->bytes.size]);
      copy({m->kept.get(), m->bytes.size}, m->bytes);
      m->bytes = {m->kept.get(), m->bytes.size};
    } else if (!wanted) {
      m->receiver->mail_.lose(*m);
    }
    world_.messages.drop(*m);
  }
  r.open = false;
  free_.push_back(&r);
}

Request SimulatedTransport::bell() {
  SimulatedRequest& r = open_request(false, rank_, {});
  r.is_bell = true;
  r.arrival = {rank_, 0};
  return handle(r);
}

void SimulatedTransport::ring() {
  ++rings_;
  if (std::ranges::any_of(awaited_, [&](Request q) { return find(q).is_bell; })) actor_.wake();
}

std::optional<Arrival> SimulatedTransport::take(SimulatedRequest& r) {
  if (r.is_bell && rings_ > 0) {
    --rings_;
    r.complete = true;
  }
  if (!r.complete) return {};
  const auto error = std::move(r.error);
  end(r);
  if (error) throw *error;
  return r.arrival;
}

void SimulatedTransport::throw_if_hopeless(SimulatedRequest& r) {
  if (r.is_bell) return;
  int peer = r.peer;
  if (peer == kAnyRank) {
    if (world_.present() > 1) return;
    for (peer = 0; peer < size() - 1 && !world_.fate(peer).gone;) ++peer;
    for (int p = 0; p < size(); ++p)  // a death says more than a departure
      if (p != rank_ && world_.fate(p).died) {
        peer = p;
        break;
      }
  } else if (!(r.is_send ? world_.fate(peer).died : world_.fate(peer).gone)) {
    return;
  }
  const TransportError error = world_.gone_error(peer, rank_, r.tag);
  world_.blame(rank_, blame_of(error));
  if (!r.is_send) mail_.withdraw(r);
  end(r);
  throw error;
}

std::size_t SimulatedTransport::wait_any(std::span<const Request> requests, Deadline deadline,
                                         Arrival* arrival) {
  for (;;) {
    for (std::size_t i = 0; i < requests.size(); ++i)
      if (const auto ended = take(find(requests[i]))) {
        if (arrival) *arrival = *ended;
        return i;
      }
    if (world_.present() < size())
      for (const Request& r : requests) throw_if_hopeless(find(r));
    if (now() >= deadline.at) {
      const SimulatedRequest& first = find(requests[0]);
      throw too_late(first.peer, rank_, first.tag);
    }
    sleep_for_requests(requests, deadline.at);
  }
}

void SimulatedTransport::sleep_for_requests(std::span<const Request> requests, double until) {
  for (const Request& r : requests) find(r).awaited = true;
  awaited_ = requests;
  actor_.sleep(until, "messages");
  awaited_ = {};
  for (const Request& r : requests) find(r).awaited = false;
}

std::optional<Arrival> SimulatedTransport::test(Request request) {
  SimulatedRequest& r = find(request);
  if (const auto ended = take(r)) return ended;
  throw_if_hopeless(r);
  pass(kPollSeconds);
  return {};
}

std::optional<Arrival> SimulatedTransport::probe(int from, Tag tag) {
  const auto found = mail_.probe(from, tag);
  if (!found) pass(kPollSeconds);
  return found;
}

bool SimulatedTransport::cancel(Request request) {
  if (world_.fate(rank_).gone) return false;  // scope guards of a rank that died come here
  SimulatedRequest& r = find(request);
  if (r.is_send) {
    const double until = now() + patience_seconds();
    try {
      while (!r.complete && !world_.fate(r.peer).died && now() < until)
        sleep_for_requests({&request, 1}, until);
    } catch (const Died&) {  // not out of a scope guard: the next to sleep dies of it
      return false;
    }
  }
  const bool cancelled = !r.complete;
  if (cancelled && !r.is_send && !r.is_bell) mail_.withdraw(r);
  r.error.reset();
  end(r);
  return cancelled;
}

std::vector<int> SimulatedTransport::dead_peers() {
  std::vector<int> dead;
  for (int r = 0; r < size(); ++r)
    if (world_.fate(r).died) dead.push_back(r);
  return dead;
}

std::unique_ptr<Window> SimulatedTransport::open_window(std::size_t bytes,
                                                        std::span<const int> members) {
  return world_.windows.open(*this, bytes, members);
}

Window* SimulatedTransport::window_at(const void* address) {
  return world_.windows.at(*this, address);
}

void SimulatedTransport::sleep_among(std::span<const int> members, double until) {
  meeting_ = members;
  actor_.sleep(until, "a meeting at a window");
  meeting_ = {};
}

void SimulatedTransport::pass(double seconds) {
  const double until = now() + seconds;
  while (now() < until) actor_.sleep(until, "time to pass");
}

void SimulatedTransport::begin() { world_.network.enters_call(rank_, lane_); }

void SimulatedTransport::sleep_outside(double until, const char* what) {
  world_.network.leaves_calls(rank_, lane_);
  actor_.sleep(until, what);
  world_.network.enters_call(rank_, lane_);
}

void SimulatedTransport::wake_if_awaiting(int gone_rank) {
  const bool needed = std::ranges::find(meeting_, gone_rank) != meeting_.end() ||
                      std::ranges::any_of(awaited_, [&](Request q) {
                        const int peer = find(q).peer;
                        return peer == gone_rank || peer == kAnyRank;
                      });
  if (needed) actor_.wake();
}

void SimulatedTransport::close() {
  world_.network.enters_call(rank_, lane_);  // nothing stands still for one that is gone
  awaited_ = {};
  meeting_ = {};
  for (SimulatedMessage* parked : mail_.close()) fly(*parked);
  for (auto& r : requests_) {
    if (!r->open) continue;
    if (r->message) r->message->receiver->mail_.lose(*r->message);
    end(*r);
  }
}

}  // namespace lockstep
