#include "collectives/all_reduce.h"

#include <algorithm>
#include <array>

#include "core/names.h"

namespace lockstep {
namespace {

constexpr AllReduceRow kRows[] = {
#define ALL_REDUCE(function, name, description) \
  {name, description, function##_all_reduce, function##_sent},
#include "collectives/all_reduces.def"
#undef ALL_REDUCE
    {"auto", "one of the others by size, ranks and place", auto_all_reduce, nullptr},
};

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

}  // namespace lockstep
