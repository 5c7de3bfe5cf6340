#include "transport/simulated/network.h"

#include <algorithm>
#include <csignal>
#include <simgrid/kernel/Timer.hpp>
#include <simgrid/kernel/resource/Action.hpp>
#include <simgrid/kernel/resource/Model.hpp>
#include <simgrid/s4u.hpp>
#include <simgrid/simix.hpp>

#include "transport/simulated/actor.h"

namespace lockstep {
namespace {

namespace s4u = simgrid::s4u;
namespace resource = simgrid::kernel::resource;
using simgrid::kernel::timer::Timer;

s4u::Engine* make_engine() {
  if (s4u::Engine::is_initialized())
    throw UsageError("one process can run one simulation: start another process for the next");
  std::vector<std::string> options{"lockstep", "--log=root.thresh:critical",
                                   "--cfg=network/model:CM02", "--cfg=network/TCP-gamma:0",
                                   "--cfg=network/crosstraffic:0"};
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  options.push_back("--cfg=contexts/factory:thread");  // sanitizers don't follow swapped stacks
#endif
  std::vector<char*> argv;
  for (auto& o : options) argv.push_back(o.data());
  int argc = static_cast<int>(argv.size());
  argv.push_back(nullptr);

  struct sigaction interrupt;
  sigaction(SIGINT, nullptr, &interrupt);
  // Never destroyed: it marks this process as used up, and SimGrid cleans up at exit.
  auto* engine = new s4u::Engine(&argc, argv.data());
  sigaction(SIGINT, &interrupt, nullptr);  // SimGrid takes Ctrl-C for itself
  return engine;
}

std::vector<s4u::LinkInRoute> link(
    s4u::NetZone* zone, const std::string& name, double bandwidth,
    s4u::Link::SharingPolicy policy = s4u::Link::SharingPolicy::SHARED) {
  // Without a latency: fly() adds it, so that messages behind each other don't pay it in turn.
  const s4u::Link* made = zone->create_link(name, bandwidth)->set_sharing_policy(policy)->seal();
  return {s4u::LinkInRoute(made)};
}

// A host with a line up to its zone's switch, one down, and one to itself.
s4u::Host* make_host(s4u::NetZone* zone, const SimulatedCluster& c, int number) {
  const std::string name = fmt::format("host-{}", number);
  s4u::Host* host = zone->create_host(name, 1e9);
  auto* point = host->get_netpoint();
  zone->add_route(point, nullptr, nullptr, nullptr,
                  link(zone, name + "-up", c.bandwidth_bytes_per_s), false);
  zone->add_route(nullptr, point, nullptr, nullptr,
                  link(zone, name + "-down", c.bandwidth_bytes_per_s), false);
  zone->add_route(
      point, point, nullptr, nullptr,
      link(zone, name + "-local", c.local_bandwidth_bytes_per_s, s4u::Link::SharingPolicy::FATPIPE),
      false);
  return host;
}

std::vector<s4u::Host*> make_star(const SimulatedCluster& c) {
  auto* zone = s4u::create_star_zone("star");
  std::vector<s4u::Host*> hosts;
  for (int h = 0; h < c.hosts(); ++h) hosts.push_back(make_host(zone, c, h));
  zone->seal();
  return hosts;
}

std::vector<s4u::Host*> make_tree(const SimulatedCluster& c) {
  auto* root = s4u::create_star_zone("tree");
  const double uplink = c.hosts_per_rack * c.bandwidth_bytes_per_s / c.oversubscription;
  std::vector<s4u::Host*> hosts;
  for (int rack = 0; rack * c.hosts_per_rack < c.hosts(); ++rack) {
    const std::string name = fmt::format("rack-{}", rack);
    auto* zone = s4u::create_star_zone(name)->set_parent(root);
    for (int i = 0; i < c.hosts_per_rack && static_cast<int>(hosts.size()) < c.hosts(); ++i)
      hosts.push_back(make_host(zone, c, static_cast<int>(hosts.size())));
    auto* gate = zone->create_router(name + "-switch");
    zone->seal();
    root->add_route(zone->get_netpoint(), nullptr, gate, nullptr, link(root, name + "-up", uplink),
                    false);
    root->add_route(nullptr, zone->get_netpoint(), nullptr, gate,
                    link(root, name + "-down", uplink), false);
  }
  root->seal();
  return hosts;
}

}  // namespace

SimulatedNetwork::SimulatedNetwork(const SimulatedCluster& cluster)
    : cluster_(cluster),
      ends_(end_of(cluster.ranks, 0)),
      engine_(make_engine()),
      hosts_(cluster.hosts_per_rack ? make_tree(cluster) : make_star(cluster)),
      flying_(std::make_shared<Flying>()) {
  for (auto* model : engine_->get_all_models())
    if (model->get_name() == "Network_CM02") model_ = model;
  for (int r = 0; r < cluster.ranks; ++r)
    for (int lane = Lanes::kOwn + 1; lane < cluster.lanes.count(); ++lane)
      ends_[end_of(r, lane)].away = true;
  if (!model_) throw InternalError("SimGrid made no CM02 network model");
  s4u::Link::on_communication_state_change_cb(
      [this, all = std::weak_ptr(flying_)](resource::NetworkAction& action,
                                           resource::Action::State) {
        const auto flying = all.lock();
        if (!flying) return;
        const auto found = flying->find(&action);
        if (found == flying->end()) return;
        Connection& connection = *found->second;
        flying->erase(found);
        landed(connection);
      });
}

SimulatedNetwork::~SimulatedNetwork() = default;

double SimulatedNetwork::latency_s(int from_rank, int to_rank) const {
  const bool local = cluster_.host_of(from_rank) == cluster_.host_of(to_rank);
  return local ? cluster_.local_latency_s : cluster_.latency_s;
}

void SimulatedNetwork::fly(const Pair& pair, std::size_t bytes, double due, Flight& flight) {
  const std::uint64_t key = std::uint64_t(pair.from_rank) << 36 | std::uint64_t(pair.to_rank) << 8 |
                            std::uint64_t(pair.lane);
  auto known = connections_.find(key);
  if (known == connections_.end()) {
    End &from = ends_[end_of(pair.from_rank, pair.lane)],
        &to = ends_[end_of(pair.to_rank, pair.lane)];
    known = connections_
                .try_emplace(key, from, to, cluster_.host_of(pair.from_rank),
                             cluster_.host_of(pair.to_rank))
                .first;
    from.connections.push_back(&known->second);
    to.connections.push_back(&known->second);
  }
  Connection& connection = known->second;
  // One that had to wait for its receive goes before those that are still on their way here.
  auto& messages = connection.messages;
  const bool started = connection.action || connection.waits;
  auto place = messages.end();
  while (place != messages.begin() + (started ? 1 : 0) && std::prev(place)->due > due) --place;
  const bool first = place == messages.begin();
  messages.insert(place, {bytes, &flight, due});
  if (first) start_at(std::max(virtual_now(), due), connection);
}

void SimulatedNetwork::start_at(double time, Connection& connection) {
  connection.starts_at = time;
  const auto [start, is_new] = starts_.try_emplace(time);
  start->second.push_back(&connection);
  if (!is_new) return;
  Timer::set(time, [this, start = start] {
    auto due = starts_.extract(start);  // first, since one that starts may ask for another
    // Not where another message came to be the first, which starts at another time.
    std::erase_if(due.mapped(), [&](Connection* c) {
      if (c->starts_at != due.key()) return true;
      c->starts_at.reset();
      return false;
    });
    // Records of transfers side by side in memory: SimGrid walks through them all whenever one
    // ends.
    for (Connection* c : due.mapped()) prepare_first(*c);
    for (Connection* c : due.mapped()) start_first(*c);
  });
}

void SimulatedNetwork::prepare_first(Connection& connection) {
  if (connection.messages.front().bytes > 0 && !connection.prepared)
    connection.prepared =
        s4u::Comm::sendto_init(hosts_[connection.from_host], hosts_[connection.to_host]);
}

void SimulatedNetwork::settle_all(int rank, int lane) {
  for (Connection* c : ends_[end_of(rank, lane)].connections) {
    const bool changes = c->waits ? !c->held() : c->action && c->stands != c->held();
    // By a timer, since an actor's call may not touch what SimGrid computes with.
    if (changes) Timer::set(virtual_now(), [this, c] { settle(*c); });
  }
}

void SimulatedNetwork::settle(Connection& c) {
  if (c.waits && !c.held()) return start_first(c);
  if (!c.action || c.stands == c.held()) return;
  c.stands = !c.stands;
  if (c.stands)
    c.action->suspend();
  else
    c.action->resume();
}

void SimulatedNetwork::start_first(Connection& connection) {
  connection.waits = connection.held();
  if (connection.waits) return;
  if (connection.messages.front().bytes == 0) return landed(connection);
  prepare_first(connection);
  const auto comm = std::move(connection.prepared);
  comm->set_payload_size(connection.messages.front().bytes);
  // Detached, it belongs to no actor: nobody waits for it and no death cancels it. The signal above
  // tells its end, by the address of the action that has just joined the model's list.
  comm->detach();
  resource::Action& action = model_->get_started_action_set()->back();
  if (action.get_activity() != comm->get_impl())
    throw InternalError("SimGrid did not start a transfer at once");
  flying_->emplace(&action, &connection);
  connection.action = &action;
  connection.stands = false;
}

void SimulatedNetwork::landed(Connection& connection) {
  Flight& flight = *connection.messages.front().flight;
  connection.messages.pop_front();
  connection.action = nullptr;
  // By a timer even if it is due: SimGrid is in the middle of ending the one before.
  if (!connection.messages.empty())
    start_at(std::max(virtual_now(), connection.messages.front().due), connection);
  flight.land();
}

void SimulatedNetwork::run() { engine_->run(); }

}  // namespace lockstep
