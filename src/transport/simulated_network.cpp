#include "transport/simulated_network.h"

#include <csignal>
#include <simgrid/kernel/resource/Action.hpp>
#include <simgrid/kernel/resource/Model.hpp>
#include <simgrid/s4u.hpp>
#include <simgrid/simix.hpp>

#include "transport/simulated_actor.h"

namespace lockstep {
namespace {

namespace s4u = simgrid::s4u;
namespace resource = simgrid::kernel::resource;

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
    s4u::NetZone* zone, const std::string& name, double bandwidth, double latency,
    s4u::Link::SharingPolicy policy = s4u::Link::SharingPolicy::SHARED) {
  const s4u::Link* made =
      zone->create_link(name, bandwidth)->set_latency(latency)->set_sharing_policy(policy)->seal();
  return {s4u::LinkInRoute(made)};
}

// A host with a line up to its zone's switch, one down, and one to itself.
s4u::Host* make_host(s4u::NetZone* zone, const SimulatedCluster& c, int number) {
  const std::string name = fmt::format("host-{}", number);
  s4u::Host* host = zone->create_host(name, 1e9);
  auto* point = host->get_netpoint();
  const double half = c.latency_s / 2;
  zone->add_route(point, nullptr, nullptr, nullptr,
                  link(zone, name + "-up", c.bandwidth_bytes_per_s, half), false);
  zone->add_route(nullptr, point, nullptr, nullptr,
                  link(zone, name + "-down", c.bandwidth_bytes_per_s, half), false);
  zone->add_route(point, point, nullptr, nullptr,
                  link(zone, name + "-local", c.local_bandwidth_bytes_per_s, c.local_latency_s,
                       s4u::Link::SharingPolicy::FATPIPE),
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
    root->add_route(zone->get_netpoint(), nullptr, gate, nullptr,
                    link(root, name + "-up", uplink, 0), false);
    root->add_route(nullptr, zone->get_netpoint(), nullptr, gate,
                    link(root, name + "-down", uplink, 0), false);
  }
  root->seal();
  return hosts;
}

}  // namespace

SimulatedNetwork::SimulatedNetwork(const SimulatedCluster& cluster)
    : engine_(make_engine()),
      hosts_(cluster.hosts_per_rack ? make_tree(cluster) : make_star(cluster)),
      flights_(std::make_shared<Flights>()) {
  for (auto* model : engine_->get_all_models())
    if (model->get_name() == "Network_CM02") model_ = model;
  if (!model_) throw InternalError("SimGrid made no CM02 network model");
  s4u::Link::on_communication_state_change_cb(
      [all = std::weak_ptr(flights_)](resource::NetworkAction& action, resource::Action::State) {
        const auto flights = all.lock();
        if (!flights) return;
        const auto landed = flights->find(&action);
        if (landed == flights->end()) return;
        Flight* flight = landed->second;
        flights->erase(landed);
        flight->land();
      });
}

void SimulatedNetwork::fly(int from_host, int to_host, std::size_t bytes, Flight& flight) {
  const auto comm = s4u::Comm::sendto_init(hosts_[from_host], hosts_[to_host]);
  comm->set_payload_size(bytes);
  switching([&] {
    simgrid::kernel::actor::simcall_answered([&] {
      // Detached, it belongs to no actor: nobody waits for it and no death cancels it. The signal
      // above tells its end, by the address of the action that has just joined the model's list.
      comm->detach();
      const resource::Action& action = model_->get_started_action_set()->back();
      if (action.get_activity() != comm->get_impl())
        throw InternalError("SimGrid did not start a transfer at once");
      flights_->emplace(&action, &flight);
    });
  });
}

void SimulatedNetwork::run() { engine_->run(); }

}  // namespace lockstep
