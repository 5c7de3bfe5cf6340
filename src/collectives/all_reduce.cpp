#include "collectives/all_reduce.h"

#include <algorithm>
#include <array>

#include "core/names.h"
#include "core/topology.h"

namespace lockstep {
namespace {

constexpr AllReduceRow kRows[] = {
#define ALL_REDUCE(function, name, description) \
  {name, description, function##_all_reduce, function##_sent},
#include "collectives/all_reduces.def"
#undef ALL_REDUCE
    {"auto", "one of the others by size, ranks and place", auto_all_reduce, nullptr},
};

// What `auto` goes by: up to the first size the number of rounds decides, from the second on the
// bytes; between them, both.
constexpr std::size_t kSmallBytes = 8 * 1024;
constexpr std::size_t kLargeBytes = 1024 * 1024;

bool several_hosts_of_several(const Place& place) {
  const auto hosts = by_host(place);
  return even_hosts(hosts) && hosts[0].size() > 1;
}

}  // namespace

Place place_of(const Transport& transport) {
  Place place;
  for (int r = 0; r < transport.size(); ++r) place.host_of.push_back(transport.host_of(r));
  return place;
}

std::vector<std::vector<int>> by_host(const Place& place) {
  std::vector<std::vector<int>> hosts;
  for (int r = 0; r < place.ranks(); ++r) {
    const auto host = static_cast<std::size_t>(place.host_of[r]);
    if (host >= hosts.size()) hosts.resize(host + 1);
    hosts[host].push_back(r);
  }
  return hosts;
}

bool even_hosts(const std::vector<std::vector<int>>& hosts) {
  return hosts.size() > 1 && std::all_of(hosts.begin(), hosts.end(), [&](const auto& host) {
           return host.size() == hosts[0].size();
         });
}

std::span<const AllReduceRow> all_reduces() { return kRows; }

const AllReduceRow& all_reduce_named(std::string_view name) {
  return row_named("collective", name, kRows);
}

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
