// All-reduce: on return every rank holds the same bits, the operator over all ranks' values. In
// place; any count, any number of ranks; the order of summation is fixed by rank, never by arrival.
// Every rank of the transport calls with the same count, type and operator; ranks that disagree get
// a TransportError.
//
// Numbers. Where sums are exact, as those of small integers, all algorithms give the same bits;
// `shared` always gives those of `round-robin`. Else let u be half a unit in the last place of 1
// (2^-24 in fp32, 2^-53 in fp64, 2^-11 in fp16, 2^-8 in bf16). If an operand is rounded at most h
// times on its way, the sum is off by at most ((1+u)^h - 1) S, where S is the sum of magnitudes:
// about h u S, which is less than h units in the last place of S.
//
//   h                            fp32, fp64            fp16, bf16
//   ring, ring-reduce            m-1                   m-1
//   hierarchical, A x B          A+B-2                 A+B-2
//   butterfly, halving-doubling  ceil(log2 m)          ceil(log2 m)
//   tree                         2 floor(log2 m)       floor(log2 m)
//   double-tree                  2 ceil(log2 m) - 1    ceil(log2 m)
//   all-to-all, master-worker,
//   round-robin, shared          m-1                   1
//
// fp16 and bf16 are added in fp32 until a rank sends; that rounds at most m times more, by 2^-24. A
// mean of fp32 or fp64 is rounded once more, where it is divided: h+1 units in the last place of
// the mean of magnitudes. But in the last four rows h is m-2 for means of more than two fp32
// values: the last is added in fp64, or m is four, by which sums are divided exactly. And there m
// equal vectors come back to the bit, as they do wherever m = 2. To that end the mean is the last
// operand where the others' sum is that of m-1 copies of it (core/total.h). Where that is chance it
// may be off by 2h units.
//
// A new one is a file of its own, with NAME_all_reduce and NAME_sent, a line in all_reduces.def and
// one in the table above.
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
