// Auto: a fixed table by size, number of ranks and place, the same on all ranks and in every run.
#include "collectives/all_reduce.h"
#include "core/topology.h"

namespace lockstep {
namespace {

// Up to here the number of rounds decides, from there on the bytes; between them, both.
constexpr std::size_t kSmallBytes = 8 * 1024;
constexpr std::size_t kLargeBytes = 1024 * 1024;

bool several_hosts_of_several(const Place& place) {
  const auto hosts = by_host(place);
  return even_hosts(hosts) && hosts[0].size() > 1;
}

}  // namespace

const AllReduceRow& choose(std::size_t bytes, const Place& place, bool in_window) {
  if (in_window) return all_reduce_named("shared");
  const bool power_of_two = power_below(place.ranks()) == place.ranks();
  if (bytes <= kSmallBytes) return all_reduce_named(power_of_two ? "butterfly" : "tree");
  if (bytes <= kLargeBytes) return all_reduce_named("halving-doubling");
  return all_reduce_named(several_hosts_of_several(place) ? "hierarchical" : "ring");
}

void auto_all_reduce(Transport& transport, Tag tag, Values values) {
  // The shortest way is not made longer by looking the table up.
  if (Window* window = window_of_all(transport, values))
    return all_reduce_in(*window, transport, tag, values);
  choose(values.bytes().size, place_of(transport), false).run(transport, tag, values);
}

}  // namespace lockstep
