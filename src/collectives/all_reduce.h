// All-reduce: on return every rank holds the same bits, the operator over all ranks' values. In
// place; any count, any number of ranks; the order of summation is fixed by rank, never by arrival.
// Every rank of the transport calls with the same count, type and operator; ranks that disagree get
// a TransportError.
//
// A new one is a file of its own, with NAME_all_reduce and NAME_sent, and a line in
// all_reduces.def.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "core/values.h"
#include "transport/transport.h"

namespace lockstep {

// Who is where, which is all that costs depend on.
struct Place {
  std::vector<int> host_of;  // by rank, numbered from 0 in order of first rank
  int ranks() const { return static_cast<int>(host_of.size()); }
};
Place place_of(const Transport&);
// The ranks of each host, ascending.
std::vector<std::vector<int>> by_host(const Place&);
// Are there several hosts, with equally many ranks each?
bool even_hosts(const std::vector<std::vector<int>>& hosts);

using AllReduce = void (*)(Transport&, Tag, Values);

struct AllReduceRow {
  std::string_view name, description;
  AllReduce run;
  // Elements that `rank` sends in one operation; for `shared`, those it reads from and writes to
  // its peers' memory. Null for `auto`: ask the row that choose() names.
  std::size_t (*sent)(std::size_t count, const Place&, int rank);
};

std::span<const AllReduceRow> all_reduces();
const AllReduceRow& all_reduce_named(std::string_view name);  // UsageError lists the names

// What `auto` runs: a fixed table, so that one seed gives the same bits. `in_window`: the values
// lie in a window that reaches all ranks.
const AllReduceRow& choose(std::size_t bytes, const Place&, bool in_window);
// The window that holds these values and reaches all ranks of the transport, or nullptr.
Window* window_of_all(Transport&, Values);
// `shared` in the window found there.
void all_reduce_in(Window&, Transport&, Tag, Values);

#define ALL_REDUCE(function, name, description)        \
  void function##_all_reduce(Transport&, Tag, Values); \
  std::size_t function##_sent(std::size_t count, const Place&, int rank);
#include "collectives/all_reduces.def"
#undef ALL_REDUCE
void auto_all_reduce(Transport&, Tag, Values);

}  // namespace lockstep
