#include "transport/simulated/transport.h"

#include <algorithm>

#include "transport/channels.h"

namespace lockstep {

SimulatedWorld::SimulatedWorld(const SimulatedCluster& c)
    : cluster(c), network(c), lanes_(c.ranks), fates_(c.ranks), present_(c.ranks) {}

SimulatedWorld::~SimulatedWorld() = default;

void SimulatedWorld::open_lane(int rank, SimulatedActor& actor) {
  const int number = static_cast<int>(lanes_[rank].size());
  lanes_[rank].push_back(std::make_unique<SimulatedTransport>(*this, rank, number, actor));
}

TransportError SimulatedWorld::gone_error(int peer, int waiter, Tag tag) const {
  if (fates_[peer].died) return died(peer, "the simulation's schedule of faults says so");
  return gone(peer, fates_[peer].blame, waiter, tag);
}

void SimulatedWorld::die(int rank) {
  if (fates_[rank].gone) return;
  part(rank, true);
  for (auto& lane : lanes_[rank]) lane->actor().kill();
}

void SimulatedWorld::part(int rank, bool died) {
  fates_[rank].gone = true;
  fates_[rank].died = died;
  --present_;
  for (auto& lane : lanes_[rank]) lane->close();
  for (auto& lanes : lanes_)
    for (auto& lane : lanes) lane->wake_if_awaiting(rank);
}

Request SimulatedTransport::post_send(int to, Tag tag, ConstBytes bytes) {
  check_peer(to, rank_, size(), "send to");
  SimulatedRequest& r = requests_.add(to, tag);
  r.is_send = true;
  r.arrival = {rank_, bytes.size};
  if (world_.fate(to).died) return {r.id};  // fails when it is waited for
  SimulatedMessage& m = world_.messages.take();
  r.message = &m;
  m.sender = this;
  m.receiver = &world_.lane(to, lane_);
  m.tag = tag;
  m.bytes = bytes;
  m.send = &r;
  m.due = now() + world_.network.latency_s(rank_, to);
  const bool taken = m.receiver->mail_.queue(m);
  m.parked = !taken && bytes.size > kEagerBytes && lane_ != world_.cluster.lanes.scoring() &&
             host_of(to) != host_of(rank_) && !world_.fate(to).gone;
  if (!m.parked) fly(m);
  return {r.id};
}

void SimulatedTransport::fly(SimulatedMessage& m) {
  m.parked = false;
  m.flying = true;
  const int lane = m.sender->lane_;
  world_.network.fly({m.from(), m.receiver->rank_, lane},
                     lane == world_.cluster.lanes.scoring() ? 0 : m.bytes.size, m.due, m);
}

Request SimulatedTransport::post_recv(int from, Tag tag, Bytes into, Combine combine) {
  check_peer(from, rank_, size(), "receive from");
  SimulatedRequest& r = requests_.add(from, tag, into, combine);
  if (SimulatedMessage* parked = mail_.post(r)) fly(*parked);
  return {r.id};
}

void SimulatedTransport::landed(SimulatedMessage& m) {
  if (m.send) m.sender->complete(*m.send);
  if (world_.fate(m.from()).died) mail_.unqueue(m);
  completed_.clear();
  mail_.landed(m, completed_);
  for (SimulatedRequest* r : completed_) complete(*r);
}

void SimulatedTransport::complete(SimulatedRequest& r) {
  r.complete = true;
  if (r.awaited) actor_.wake();
}

bool SimulatedTransport::end(SimulatedRequest& r) {
  bool arrives = r.complete;
  if (SimulatedMessage* m = std::exchange(r.message, nullptr)) {
    m->send = nullptr;
    const bool wanted = m->stream && !world_.fate(r.peer).gone;
    arrives |= wanted;
    if (wanted && m->bytes.data && m->bytes.size > 0) {
      m->kept.reset(new std::byte[m->bytes.size]);
      copy({m->kept.get(), m->bytes.size}, m->bytes);
      m->bytes = {m->kept.get(), m->bytes.size};
    } else if (!wanted) {
      m->receiver->mail_.unqueue(*m);
    }
    world_.messages.drop(*m);
  }
  requests_.end(r);
  return arrives;
}

Request SimulatedTransport::post_bell() {
  SimulatedRequest& r = requests_.add_bell(rank_);
  r.arrival = {rank_, 0};
  return {r.id};
}

void SimulatedTransport::ring() {
  ++rings_;
  if (std::ranges::any_of(awaited_, [&](Request q) { return requests_.find(q).is_bell; }))
    actor_.wake();
}

std::optional<Ending> SimulatedTransport::take(SimulatedRequest& r) {
  if (r.is_bell && rings_ > 0) {
    --rings_;
    r.complete = true;
  }
  if (!r.complete) return {};
  const auto error = std::move(r.error);
  end(r);
  if (error) throw *error;
  return Ending{0, r.arrival};
}

std::optional<Ending> SimulatedTransport::hopeless(SimulatedRequest& r) {
  if (r.is_bell) return {};
  const SimulatedWorld::Fate& fate = world_.fate(r.peer);
  if (!(r.is_send ? fate.died : fate.gone)) return {};
  // A rank that left may have given up a send that was under way.
  if (!r.is_send && !fate.died && mail_.is_coming(r)) return {};
  const TransportError error = world_.gone_error(r.peer, rank_, r.tag);
  world_.blame(rank_, blame_of(error));
  if (!r.is_send) mail_.withdraw(r);
  end(r);
  return Ending{0, {}, error};
}

Ending SimulatedTransport::wait_any(std::span<const Request> requests, Deadline deadline) {
  for (;;) {
    if (auto ended = requests_.first(requests, [&](auto& r) { return take(r); }))
      return std::move(*ended);
    if (world_.present() < size())
      if (auto gone = requests_.first(requests, [&](auto& r) { return hopeless(r); }))
        return std::move(*gone);
    if (now() >= deadline.at) return requests_.late(requests, rank_);
    sleep_for_requests(requests, deadline.at);
  }
}

void SimulatedTransport::sleep_for_requests(std::span<const Request> requests, double until) {
  for (const Request& r : requests) requests_.find(r).awaited = true;
  awaited_ = requests;
  actor_.sleep(until, "messages");
  awaited_ = {};
  for (const Request& r : requests) requests_.find(r).awaited = false;
}

std::optional<Ending> SimulatedTransport::test(Request request) {
  SimulatedRequest& r = requests_.find(request);
  if (auto ended = take(r)) return ended;
  if (auto gone = hopeless(r)) return gone;
  pass(kPollSeconds);
  return {};
}

std::optional<Arrival> SimulatedTransport::probe(int from, Tag tag) {
  const auto found = mail_.probe(from, tag);
  if (!found) pass(kPollSeconds);
  return found;
}

bool SimulatedTransport::give_up(Request request) noexcept {
  SimulatedRequest* const r =
      requests_.find_open(request);  // of a rank that is gone all have ended
  if (!r) return true;
  if (!r->complete && !r->is_send && !r->is_bell) mail_.withdraw(*r);
  r->error.reset();
  return !end(*r);
}

std::vector<int> SimulatedTransport::dead_peers() {
  std::vector<int> dead;
  for (int r = 0; r < size(); ++r)
    if (world_.fate(r).died) dead.push_back(r);
  return dead;
}

std::unique_ptr<Window> SimulatedTransport::open_window(std::size_t bytes,
                                                        std::span<const int> members) {
  auto window = world_.windows.open(*this, bytes, members, world_.cluster.hollow_windows);
  window->come({}, patience());
  return window;
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
  const bool needed =
      std::ranges::find(meeting_, gone_rank) != meeting_.end() ||
      std::ranges::any_of(awaited_, [&](Request q) { return requests_.find(q).peer == gone_rank; });
  if (needed) actor_.wake();
}

void SimulatedTransport::close() {
  world_.network.enters_call(rank_, lane_);  // nothing stands still for one that is gone
  awaited_ = {};
  meeting_ = {};
  for (SimulatedMessage* parked : mail_.close()) fly(*parked);
  for (SimulatedRequest& r : requests_.slots()) {
    if (r.id == 0) continue;
    if (r.message) r.message->receiver->mail_.unqueue(*r.message);
    end(r);
  }
}

SimulatedWindow::SimulatedWindow(All& all, SimulatedTransport& who, std::vector<int> members,
                                 std::shared_ptr<Memory> memory)
    : PlainWindow(all, who, std::move(members), std::move(memory)) {
  meeting_.who[index_] = &who;
}

SimulatedWindow::~SimulatedWindow() { close(); }

int SimulatedWindow::meet(const Words& mine) {
  come(mine, who_.patience());
  who_.pass(who_.world().cluster.local_latency_s);
  for (std::size_t i = 0; i < members_.size(); ++i)
    if (words()[i] != mine) return members_[i];
  return -1;
}

void SimulatedWindow::moved(int, Tag, std::size_t read, std::size_t written) {
  who_.pass(static_cast<double>(read + written) / who_.world().cluster.local_bandwidth_bytes_per_s);
}

void SimulatedWindow::come(const Words& mine, Deadline deadline) {
  const std::uint64_t round = ++meeting_.arrivals[index_];
  words()[index_] = mine;
  bool all_here = true;
  for (std::size_t i = 0; i < members_.size(); ++i)
    while (meeting_.arrivals[i] < round) {
      all_here = false;
      if (who_.world().fate(members_[i]).gone) {
        const TransportError error =
            who_.world().gone_error(members_[i], who_.rank(), channels::kMeeting);
        who_.world().blame(who_.rank(), blame_of(error));
        throw error;
      }
      if (who_.now() >= deadline.at) throw too_late(members_[i], who_.rank(), channels::kMeeting);
      who_.sleep_among(members_, deadline.at);
    }
  if (!all_here) return;
  for (auto* other : meeting_.who)  // they sleep for me, the last
    if (other != &who_) other->actor().wake();
}

}  // namespace lockstep
