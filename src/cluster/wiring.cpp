#include "cluster/wiring.h"

#include <algorithm>
#include <map>
#include <set>

#include "cluster/descriptors.h"
#include "cluster/host.h"
#include "cluster/job_key.h"
#include "core/error.h"
#include "transport/real_rank.h"
#include "transport/routed.h"
#include "transport/shm/shm.h"

namespace lockstep {

namespace {

// UCX's own, and for a connection: while two ranks connect to each other at once there are two.
constexpr int kDescriptorsALane = 16, kDescriptorsAPeer = 2;

}  // namespace

std::vector<int> hosts_of(const std::vector<protocol::Member>& members) {
  std::map<std::string, int> numbers;
  std::vector<int> hosts;
  for (const auto& member : members)
    hosts.push_back(numbers.emplace(member.host, static_cast<int>(numbers.size())).first->second);
  return hosts;
}

Wiring::Wiring(const Start& start, const std::vector<protocol::Member>& members,
               const std::string& address, double patience_seconds, Lanes lanes, Deaths& deaths)
    : place_{start.rank, hosts_of(members), patience_seconds, lanes},
      seal_([key = start.key](const std::string& text) { return seal_of(key, text); }),
      deaths_(deaths) {
  const int hosts = 1 + *std::max_element(place_.host_of.begin(), place_.host_of.end());
  if (hosts > 1 && start.transport == "shm")
    throw UsageError(fmt::format(
        "transport shm reaches the ranks of one host, and these are on {} hosts: use auto or ucx",
        hosts));
  near_ = start.transport != "ucx" && (hosts == 1 || hosts < start.size);
  far_ = start.transport == "ucx" || hosts > 1;
  if (near_ && leader() == start.rank) host_ = std::make_shared<ShmHost>(place_, deaths_);
  if (!far_) return;
  const std::string iface = find_interface(start.iface.empty() ? address : start.iface).name;
  if (hosts > 1 && iface == "lo")
    throw UsageError(fmt::format(
        "the ranks are on {} hosts, but rank {} would use interface lo, which reaches only "
        "its own: name another with --iface",
        hosts, start.rank));
  const auto near = std::ranges::count(place_.host_of, place_.host_of[start.rank]);
  const int others = start.size - (near_ ? static_cast<int>(near) : 1);
  reserve_descriptors(fmt::format("rank {}, which connects with {} others,", start.rank, others),
                      lanes.count() * (kDescriptorsALane + kDescriptorsAPeer * others));
  for (int lane = 0; lane < lanes.count(); ++lane)
    workers_.push_back(std::make_unique<UcxWorker>(iface));
  admit_only(members);
}

int Wiring::leader() const {
  const auto& hosts = place_.host_of;
  return static_cast<int>(std::find(hosts.begin(), hosts.end(), hosts[place_.rank]) -
                          hosts.begin());
}

int Wiring::memory_fd() const { return host_ ? host_->fd() : -1; }

std::vector<std::string> Wiring::addresses() const {
  std::vector<std::string> all;
  for (const auto& worker : workers_) all.push_back(worker->address());
  return all;
}

std::vector<std::unique_ptr<Transport>> Wiring::open_lanes(
    const std::vector<protocol::Member>& members) {
  const auto& first = members[leader()];
  if (near_ && !host_)
    host_ =
        std::make_shared<ShmHost>(place_, deaths_, static_cast<int>(first.pid), first.memory_fd);
  std::vector<std::unique_ptr<Transport>> lanes;
  for (int lane = 0; lane < place_.lanes.count(); ++lane) lanes.push_back(open_lane(lane, members));
  return lanes;
}

std::vector<int> Wiring::meet_everybody(double seconds) {
  std::set<int> unmet;
  for (auto* lane : far_lanes_) {
    const auto ranks = lane->meet_everybody(seconds / place_.lanes.count());
    unmet.insert(ranks.begin(), ranks.end());
  }
  return {unmet.begin(), unmet.end()};
}

void Wiring::close_doors() {
  for (auto* lane : far_lanes_) lane->close_door();
}

void Wiring::admit_only(const std::vector<protocol::Member>& members) {
  bool all_known = true;
  std::set<std::string> sources;
  for (const auto& member : members) {
    all_known = all_known && !member.sources.empty();
    sources.insert(member.sources.begin(), member.sources.end());
  }
  for (const auto& worker : workers_)
    if (all_known)
      worker->admit_only({sources.begin(), sources.end()});
    else
      worker->admit_all();
}

std::unique_ptr<Transport> Wiring::open_lane(int lane,
                                             const std::vector<protocol::Member>& members) {
  if (!far_) return open_shm(host_, lane);
  std::vector<std::string> addresses;  // empty for those that shared memory reaches
  for (const auto& member : members) {
    if (std::ssize(member.addresses) != place_.lanes.count())
      throw UsageError(
          fmt::format("rank {} asks for {} lanes and rank {} for {}: all ranks of a job ask for "
                      "the same number",
                      place_.rank, place_.lanes.count(), member.rank, member.addresses.size()));
    const bool reached = near_ && place_.host_of[member.rank] == place_.host_of[place_.rank];
    addresses.push_back(reached ? "" : member.addresses.at(lane));
  }
  auto far = std::make_unique<UcxTransport>(
      std::move(workers_[lane]),
      UcxPlace{place_.rank, place_.host_of, place_.patience_seconds, seal_}, std::move(addresses),
      deaths_);
  far_lanes_.push_back(far.get());
  if (!near_) return far;
  const auto doze = [&wire = *far](double seconds) { wire.doze(seconds); };
  return open_routed(open_shm(host_, lane), std::move(far), doze);
}

}  // namespace lockstep
