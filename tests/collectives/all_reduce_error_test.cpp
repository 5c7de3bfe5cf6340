// How far from the exact total the all-reduces end: what all_reduce.h states, for every row of the
// table, number of ranks and type. Each bound is also reached, or nearly so, by numbers made for
// it: one more rounding on the way of an operand would be seen.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "collectives/all_reduce.h"
#include "data.h"

namespace lockstep {
namespace {

using namespace testing;

constexpr Type kReals[] = {Type::fp32, Type::fp64, Type::fp16, Type::bf16};
constexpr int kRanks[] = {2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 17};
constexpr std::size_t kCount = 601;

bool is_narrow(Type type) { return size_of(type) == 2; }

// Half a unit in the last place of 1: the most that rounding changes a number by, relatively.
double unit(Type type) {
  return std::exp2(type == Type::fp32   ? -24
                   : type == Type::fp64 ? -53
                   : type == Type::fp16 ? -11
                                        : -8);
}

long double number(const Values& values, std::size_t i) {
  const std::byte* at = values.bytes().data + i * size_of(values.type());
  const auto read = [at](auto v) {
    std::memcpy(&v, at, sizeof v);
    return v;
  };
  switch (values.type()) {
    case Type::fp32:
      return read(0.f);
    case Type::fp64:
      return read(0.);
    case Type::fp16:
      return static_cast<float>(read(_Float16{}));
    default:
      return std::bit_cast<float>(std::uint32_t{read(std::uint16_t{})} << 16);
  }
}

int log2_up(int m) { return std::bit_width(static_cast<unsigned>(m - 1)); }
int log2_down(int m) { return std::bit_width(static_cast<unsigned>(m)) - 1; }

bool sums_at_one_rank(std::string_view row) {
  return row == "all-to-all" || row == "master-worker" || row == "round-robin" || row == "shared";
}
// A tree of three is a root that sees all.
bool sees_all(std::string_view row, int m) {
  return m == 2 || sums_at_one_rank(row) || (row == "tree" && m == 3);
}

// How often an operand is rounded to its own type on its way into the sum.
int roundings(std::string_view row, int m, Type type) {
  if (sums_at_one_rank(row)) return is_narrow(type) ? 1 : m - 1;
  if (row == "ring" || row == "ring-reduce") return m - 1;
  if (row == "tree") return (is_narrow(type) ? 1 : 2) * log2_down(m);
  if (row == "double-tree") return is_narrow(type) ? log2_up(m) : 2 * log2_up(m) - 1;
  if (row == "butterfly" || row == "halving-doubling") return log2_up(m);
  if (row == "hierarchical") {
    int a = static_cast<int>(std::sqrt(m));
    while (m % a != 0) --a;
    return a - 1 + m / a - 1;
  }
  throw InternalError(fmt::format("no bound is stated for '{}'", row));
}

// All ranks' operands of one element.
struct Operands {
  long double sum = 0, magnitudes = 0;
};

long double grown(long double unit, int times) { return std::expm1(times * std::log1p(unit)); }

// What all_reduce.h states.
long double bound(std::string_view row, int m, Type type, Op op, const Operands& x) {
  const long double u = unit(type);
  const bool last_in_fp64 = op == Op::mean && type == Type::fp32 && m > 2 && sees_all(row, m);
  const int h = last_in_fp64 ? m - 2 : roundings(row, m, type);
  if (is_narrow(type)) {
    // And in fp32 at most once by each of the others, and by what a mean is divided.
    const long double in_fp32 = grown(unit(Type::fp32), m);
    const long double error = (grown(u, h) * (1 + in_fp32) + in_fp32) * x.magnitudes;
    return op == Op::mean ? error / m : error;
  }
  return op == Op::mean ? grown(u, h + 1) * (1 + 1e-6L) * x.magnitudes / m
                        : grown(u, h) * x.magnitudes;
}

enum class Numbers { equal, spread, hostile };

// The numbers of one rank. `hostile`: of each element one rank has 1, and the others nothing or a
// little more than half a unit in the last place of it, which rounds up by almost another half
// whenever an odd number of them is added.
void draw(Numbers kind, int rank, int m, Values values) {
  Rng rng(7, kind == Numbers::equal ? 0 : rank, purpose_of("numbers"));
  for (std::size_t i = 0; i < values.count(); ++i) {
    const double small = rng.below(2) ? unit(values.type()) * (1 + 0x1p-5) : 0;
    const bool has_one = static_cast<int>(i % static_cast<std::size_t>(m)) == rank;
    const double spread = rng.normal() * std::exp2(rng.normal() * 3);
    put(values, i, kind != Numbers::hostile ? spread : has_one ? 1 : small);
  }
}

// The largest error, by its bound. All ranks have the same bits, so one of them looks.
double worst_error(const AllReduceRow& row, Transport& transport, Type type, Op op, Numbers kind) {
  const int m = transport.size();
  Buffer buffer(transport, row.name == "shared", kCount * size_of(type));
  const Values values = buffer.values(kCount, type, op);
  draw(kind, transport.rank(), m, values);
  row.run(transport, kTag, values);
  if (transport.rank() != 0) return 0;

  std::vector<std::vector<long double>> x(kCount);
  std::vector<std::byte> memory(kCount * size_of(type));
  const Values given(memory.data(), kCount, type, op);
  for (int r = 0; r < m; ++r) {
    draw(kind, r, m, given);
    for (std::size_t i = 0; i < kCount; ++i) x[i].push_back(number(given, i));
  }
  double worst = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    Operands all;
    for (const long double a : x[i]) all.sum += a, all.magnitudes += std::abs(a);
    const long double exact = op == Op::mean ? all.sum / m : all.sum;
    const long double error = std::abs(number(values, i) - exact);
    worst = std::max(worst, static_cast<double>(error / bound(row.name, m, type, op, all)));
  }
  return worst;
}

class AllReduceError : public ::testing::TestWithParam<std::string> {};

TEST_P(AllReduceError, StaysWithinTheBoundAndComesNearIt) {
  const AllReduceRow& row = all_reduce_named(GetParam());
  run_simulated_fabric(
      17,
      [&](Rank& rank) {
        for (const int m : kRanks) {
          const auto group = first_ranks(rank, m);
          if (!group) continue;
          for (const Type type : kReals)
            for (const Op op : {Op::sum, Op::mean}) {
              double nearest = 0;
              for (const Numbers kind : {Numbers::equal, Numbers::spread, Numbers::hostile}) {
                const double error = worst_error(row, *group, type, op, kind);
                nearest = std::max(nearest, error);
                EXPECT_LE(error, 1) << m << " ranks, " << name_of(type) << " " << name_of(op);
              }
              // All ranks but one return nothing.
              EXPECT_GE(nearest, rank.rank() > 0 ? 0
                                 : op == Op::sum ? 0.45
                                                 : 0.3)
                  << m << " ranks, " << name_of(type) << " " << name_of(op) << ": a loose bound";
            }
        }
      },
      {});
}

void keeps_equal(const AllReduceRow& row, Transport& transport) {
  for (const Type type : {Type::fp32, Type::fp16, Type::bf16}) {
    Buffer buffer(transport, row.name == "shared", 101 * 8);
    const Values values = buffer.values(101, type, Op::mean);
    draw(Numbers::equal, 0, 1, values);
    const std::vector<std::byte> before(values.bytes().data,
                                        values.bytes().data + values.bytes().size);
    row.run(transport, kTag, values);
    EXPECT_TRUE(same_bits(values, before))
        << transport.size() << " ranks, " << row.name << ", " << name_of(type);
  }
}

class EqualVectors : public ::testing::TestWithParam<World> {};

TEST_P(EqualVectors, ComeBackToTheBit) {
  GetParam().run(
      17,
      [&](Rank& rank) {
        for (int m = 1; m <= 17; ++m)
          if (const auto group = first_ranks(rank, m))
            for (const AllReduceRow& row : all_reduces())
              if (sums_at_one_rank(row.name) && (row.name != "shared" || shares_memory(GetParam())))
                keeps_equal(row, *group);
      },
      {});
}

TEST(ManyEqualVectors, ComeBackToTheBit) {
  run_simulated_fabric(200,
                       [&](Rank& rank) {
                         keeps_equal(all_reduce_named("master-worker"), rank.peers);
                         for (const int m : {33, 49})
                           if (const auto group = first_ranks(rank, m))
                             for (const char* row : {"round-robin", "all-to-all", "shared"})
                               keeps_equal(all_reduce_named(row), *group);
                       },
                       {});
}

std::vector<std::string> rows() {
  std::vector<std::string> names;
  for (const AllReduceRow& row : all_reduces())
    if (row.sent) names.emplace_back(row.name);  // all but `auto`, which is one of the others
  return names;
}

INSTANTIATE_TEST_SUITE_P(Every, EqualVectors, ::testing::ValuesIn(worlds()),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Every, AllReduceError, ::testing::ValuesIn(rows()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace lockstep
