// Every all-reduce: the bits it gives for each type and operator, the bytes that each rank sends,
// and its virtual time; and the same of the other collectives. As recorded in collectives.txt and
// collective_times.txt.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "collectives/all_gather.h"
#include "collectives/all_reduce.h"
#include "collectives/broadcast.h"
#include "collectives/data.h"
#include "collectives/ring.h"
#include "in_a_process.h"
#include "recorded.h"

namespace lockstep::golden {
namespace {

using lockstep::testing::Buffer;
using lockstep::testing::first_ranks;
using lockstep::testing::kTag;

constexpr int kRanks[] = {1, 2, 3, 5, 8};
constexpr int kMost = 8;
constexpr Type kTypes[] = {Type::fp32, Type::fp64,  Type::fp16,
                           Type::bf16, Type::int32, Type::int64};
constexpr Op kOps[] = {Op::sum, Op::mean, Op::min, Op::max};
constexpr std::size_t kCounts[] = {1, 5, 1009};
constexpr std::size_t kLong = 300'007;  // fp32 only: more than one segment, and than one message

// Numbers of many digits and of sizes from 2^-6 to 2^6, with zeros of both signs among them; whole
// where the type is.
double number_at(Type type, int rank, std::size_t i) {
  const std::uint64_t bits = mixed((i * 64 + static_cast<std::uint64_t>(rank)) * 8 + 5);
  const double x = static_cast<double>(bits >> 11) * 0x1p-52 - 1;  // from -1 to 1
  if (type == Type::int32) return std::trunc(x * 0x1p24);
  if (type == Type::int64) return std::trunc(x * 0x1p50);
  if (bits % 16 == 0) return bits % 32 == 0 ? 0.0 : -0.0;
  return std::ldexp(x, static_cast<int>(bits % 13) - 6);
}

// All that ranks come with: made once, since each is used for many operators and collectives.
class Numbers {
 public:
  Numbers() {
    for (const Type type : kTypes)
      for (int rank = 0; rank < kMost; ++rank) {
        const std::size_t count = type == Type::fp32 ? kLong : kCounts[2];
        std::vector<std::byte>& all = of_[{type, rank}];
        all.resize(count * size_of(type));
        const Values values(all.data(), count, type);
        for (std::size_t i = 0; i < count; ++i)
          lockstep::testing::put(values, i, number_at(type, rank, i));
      }
  }
  void fill(Values values, int rank) const {
    copy(values.bytes(), {of_.at({values.type(), rank}).data(), values.bytes().size});
  }

 private:
  std::map<std::pair<Type, int>, std::vector<std::byte>> of_;
};

// Something that all ranks of a transport do with their values.
struct Verb {
  std::string name;
  std::function<void(Transport&, Values)> run;
  bool in_window = false;  // of all ranks
  bool combines = true;    // so the operator matters
  // The part of the values that it promises; empty: all of them.
  std::function<Slice(const Transport&, std::size_t count)> gives = {};
};

Slice all_at_root(const Transport& peers, std::size_t count) {
  return {0, peers.rank() == peers.size() / 2 ? count : 0};
}
Slice own_chunk(const Transport& peers, std::size_t count) {
  return chunk(count, peers.size(), peers.rank());
}

// The number of values of a rank's part in an all-gather of uneven parts.
std::vector<std::size_t> uneven_parts(std::size_t count, int ranks) {
  std::vector<std::size_t> parts(ranks);
  for (std::size_t i = 0; i < count; ++i) ++parts[mixed(i) % 5 % static_cast<std::size_t>(ranks)];
  return parts;
}

std::vector<Verb> verbs() {
  std::vector<Verb> all = {
      {"broadcast",
       [](Transport& peers, Values values) { broadcast(peers, kTag, values, peers.size() / 2); },
       false, false},
      {"reduce",
       [](Transport& peers, Values values) { reduce(peers, kTag, values, peers.size() / 2); },
       false, true, all_at_root},
      {"reduce-scatter",
       [](Transport& peers, Values values) { reduce_scatter(peers, kTag, values); }, false, true,
       own_chunk},
      {"all-gather", [](Transport& peers, Values values) { all_gather(peers, kTag, values); },
       false, false},
      {"all-gather-v",
       [](Transport& peers, Values values) {
         all_gather_v(peers, kTag, values, uneven_parts(values.count(), peers.size()));
       },
       false, false},
  };
  for (const AllReduceRow& row : all_reduces())
    all.push_back({std::string(row.name),
                   [&row](Transport& peers, Values values) { row.run(peers, kTag, values); },
                   row.name == "shared"});
  return all;
}

// What one rank holds and has sent after the verb has run once for each count.
struct Done {
  std::uint64_t bits = 0, sent = 0, received = 0;
};
Done run(const Verb& verb, Transport& peers, Buffer& buffer, Type type, Op op,
         std::span<const std::size_t> counts, const Numbers& numbers) {
  Ledger ledger(peers.size());
  Metered metered(peers, ledger);
  Hash bits;
  for (const std::size_t count : counts) {
    const Values values = buffer.values(count, type, op);
    numbers.fill(values, peers.rank());
    verb.run(metered, values);
    bits.add((verb.gives ? values.part(verb.gives(peers, count)) : values).bytes());
  }
  const Traffic all = total(ledger);
  return {bits.value(), all.bytes_sent, all.bytes_received};
}

// By rank.
std::string bits_of(const std::vector<Done>& ranks) {
  Hash all;
  for (const Done& rank : ranks) all.add(rank.bits);
  return all.text();
}
std::string listed(const std::vector<Done>& ranks, std::uint64_t Done::*of) {
  std::vector<std::uint64_t> numbers;
  for (const Done& rank : ranks) numbers.push_back(rank.*of);
  return fmt::format("{}", fmt::join(numbers, ","));
}

struct Shape {
  int ranks;
  Type type;
  bool is_long = false;

  std::vector<std::size_t> counts() const {
    return is_long ? std::vector{kLong} : std::vector(std::begin(kCounts), std::end(kCounts));
  }
};

std::vector<Shape> shapes() {
  std::vector<Shape> all;
  for (const int ranks : kRanks)
    for (const Type type : kTypes) all.push_back({ranks, type});
  for (const int ranks : {3, 8}) all.push_back({ranks, Type::fp32, true});
  return all;
}

using RunWorld = std::function<void(int, const Body&, const FabricOptions&)>;

// One fabric for all shapes: fewer ranks are the first of it.
std::vector<Line> lines_of(const Verb& verb, const Numbers& numbers, const RunWorld& world) {
  const std::vector<Shape> all = shapes();
  const std::span<const Op> ops = verb.combines ? std::span(kOps) : std::span(kOps, 1);
  // by shape, operator, rank
  std::vector done(all.size(), std::vector(ops.size(), std::vector<Done>()));
  for (std::size_t s = 0; s < all.size(); ++s)
    for (auto& ranks : done[s]) ranks.resize(all[s].ranks);
  const Body body = [&](Rank& rank) {
    for (std::size_t s = 0; s < all.size(); ++s) {
      const auto group = first_ranks(rank, all[s].ranks);
      if (!group) continue;
      Buffer buffer(*group, verb.in_window, 8 * (all[s].is_long ? kLong : kCounts[2]));
      for (std::size_t o = 0; o < ops.size(); ++o)
        done[s][o][rank.rank()] =
            run(verb, *group, buffer, all[s].type, ops[o], all[s].counts(), numbers);
    }
  };
  world(kMost, body, {});
  std::vector<Line> lines;
  for (std::size_t s = 0; s < all.size(); ++s) {
    Line line{fmt::format("{} {} ranks {}{}", verb.name, all[s].ranks, name_of(all[s].type),
                          all[s].is_long ? " long" : ""),
              {}};
    for (std::size_t o = 0; o < ops.size(); ++o)
      line.add(verb.combines ? std::string(name_of(ops[o])) : "bits", bits_of(done[s][o]));
    line.add("sent", listed(done[s][0], &Done::sent));
    line.add("received", listed(done[s][0], &Done::received));
    lines.push_back(line);
  }
  return lines;
}

// Hosts of two ranks each, for those collectives that look.
void run_on_hosts(int ranks, const Body& body, const FabricOptions&) {
  FabricOptions options;
  options.ranks_per_host = 2;
  run_loopback(ranks, body, options);
}

TEST(GoldenCollectives, Bits) {
  const Numbers numbers;
  std::vector<Line> lines;
  for (const Verb& verb : verbs())
    for (Line& line : lines_of(verb, numbers, verb.in_window ? run_shm : run_on_hosts))
      lines.push_back(std::move(line));
  EXPECT_TRUE(compare_or_write("collectives.txt", lines));
}

// A million values that have a size and no data, on hosts of two ranks each; `shared`, whose memory
// can't be hollow, with fewer on one host.
Line time_of(const Verb& verb, int ranks) {
  Line line{fmt::format("{} {} ranks", verb.name, ranks), {}};
  SimulatedCluster cluster;
  cluster.ranks = ranks;
  cluster.ranks_per_host = verb.in_window ? ranks : 2;
  std::vector<double> at_s(ranks);
  try {
    run_simulated(cluster, [&](Rank& rank) {
      std::optional<Buffer> buffer;
      if (verb.in_window) buffer.emplace(rank.peers, true, 100'003 * sizeof(float));
      const double start_s = rank.clock.now();
      verb.run(rank.peers, buffer ? buffer->values(100'003, Type::fp32, Op::mean)
                                  : Values::hollow(1'000'003, Type::fp32, Op::mean));
      at_s[rank.rank()] = rank.clock.now() - start_s;
    });
  } catch (const std::exception& failure) {
    return {line.name, {{"failed", failure.what()}}};
  }
  Hash clock;
  for (const double s : at_s) clock.add(s);
  line.add("seconds", exact(*std::ranges::max_element(at_s)));
  line.add("clock", clock.text());
  return line;
}

TEST(GoldenCollectives, VirtualTimes) {
  std::vector<Line> lines;
  for (const Verb& verb : verbs())
    for (const int ranks : kRanks) {
      const std::string name = fmt::format("{} {} ranks", verb.name, ranks);
      lines.push_back(in_a_process(name, [&] { return time_of(verb, ranks); }));
    }
  EXPECT_TRUE(compare_or_write("collective_times.txt", lines));
}

}  // namespace
}  // namespace lockstep::golden
