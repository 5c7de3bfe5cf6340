#include "transport/simulated/cluster.h"

#include <cmath>

namespace lockstep {
namespace {

void require(bool ok, const char* what, double given, const char* right) {
  if (!ok)
    throw UsageError(fmt::format("simulated cluster: {} is {}, must be {}", what, given, right));
}

void require_positive(double value, const char* what) {
  require(std::isfinite(value) && value > 0, what, value, "above 0");
}

void require_time(double value, const char* what) {
  require(std::isfinite(value) && value >= 0, what, value, "0 s or more");
}

}  // namespace

void check(const SimulatedCluster& c) {
  require(c.ranks >= 1, "ranks", c.ranks, "1 or more");
  require(c.ranks_per_host >= 1, "ranks per host", c.ranks_per_host, "1 or more");
  require(c.hosts_per_rack >= 0, "hosts per rack", c.hosts_per_rack, "0 (a star) or more");
  require_positive(c.bandwidth_bytes_per_s, "bandwidth");
  require_positive(c.local_bandwidth_bytes_per_s, "local bandwidth");
  require_positive(c.oversubscription, "oversubscription");
  require_time(c.latency_s, "latency");
  require_time(c.local_latency_s, "local latency");
  require(c.patience_s > 0, "patience", c.patience_s, "above 0");
  c.lanes.check();
  for (const auto& death : c.deaths) {
    require(death.rank >= 0 && death.rank < c.ranks, "the rank to die", death.rank,
            "one of the ranks");
    require_time(death.at_s, "the time of a death");
  }
}

}  // namespace lockstep
