#include "compression/low_rank.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "core/error.h"
#include "specs.h"

namespace lockstep {
namespace {

// Some ranks that do the steps of low_rank.h, with means in place of the two all-reduces.
class Ranks {
 public:
  Ranks(int ranks, const LowRankRule& rule, std::vector<Tensor2d> tensors)
      : errors_(ranks, Numbers(tensors.back().begin + tensors.back().count())) {
    for (Numbers& error : errors_)
      ranks_.push_back(std::make_unique<LowRank>(rule, tensors, values(error), 17));
  }

  // What each rank's gradients become.
  std::vector<Numbers> average(std::vector<Numbers> gradients) {
    std::vector<Values> lefts, rights;
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      lefts.push_back(ranks_[r]->left(values(gradients[r])));
    left_ = mean(lefts);
    for (auto& rank : ranks_) rights.push_back(rank->right());
    p_ = Numbers(floats(lefts[0]), floats(lefts[0]) + lefts[0].count());
    mean(rights);
    for (std::size_t r = 0; r < ranks_.size(); ++r) ranks_[r]->finish(values(gradients[r]));
    return gradients;
  }

  const Numbers& p() const { return p_; }  // of all matrices, then tensors as they are
  const std::vector<Numbers>& errors() const { return errors_; }
  LowRank& rank(std::size_t r) { return *ranks_[r]; }

 private:
  static float* floats(Values v) { return reinterpret_cast<float*>(v.bytes().data); }
  static Numbers mean(const std::vector<Values>& all) {
    Numbers sum(all[0].count());
    for (std::size_t i = 0; i < sum.size(); ++i) {
      double total = 0;
      for (const Values& v : all) total += floats(v)[i];
      sum[i] = static_cast<float>(total / static_cast<double>(all.size()));
      for (const Values& v : all) floats(v)[i] = sum[i];
    }
    return sum;
  }

  std::vector<Numbers> errors_;
  std::vector<std::unique_ptr<LowRank>> ranks_;
  Numbers left_, p_;
};

Numbers mean_of(const std::vector<Numbers>& all) {
  Numbers mean(all[0].size());
  for (std::size_t i = 0; i < mean.size(); ++i) {
    double sum = 0;
    for (const Numbers& v : all) sum += v[i];
    mean[i] = static_cast<float>(sum / static_cast<double>(all.size()));
  }
  return mean;
}

double distance(const Numbers& a, const Numbers& b) { return std::sqrt(squared_distance(a, b)); }

const LowRankRule kForced{2, 1e-9, 0};  // compresses whatever the size

TEST(LowRank, TheResultAndTheMeanOfErrorsAddUpToTheMean) {
  Ranks ranks(3, kForced, {{0, 20, 30}, {600, 7, 11}});
  Numbers owed(677);  // the mean of errors before
  for (std::uint64_t step = 0; step < 5; ++step) {
    std::vector<Numbers> gradients;
    for (std::uint64_t r = 0; r < 3; ++r) gradients.push_back(normal_numbers(677, 3 * step + r));
    Numbers due = mean_of(gradients);
    for (std::size_t i = 0; i < due.size(); ++i) due[i] += owed[i];
    const auto results = ranks.average(gradients);
    owed = mean_of(ranks.errors());
    Numbers both = results[0];
    for (std::size_t i = 0; i < both.size(); ++i) both[i] += owed[i];
    EXPECT_LT(distance(both, due), 1e-4) << step;
    EXPECT_GT(std::sqrt(squared_norm(owed)), 1);
    for (const Numbers& result : results)
      EXPECT_EQ(std::memcmp(result.data(), results[0].data(), 4 * result.size()), 0);
  }
}

TEST(LowRank, IsExactForMatricesOfItsRank) {
  const std::size_t n = 20, q = 30;
  const Numbers a = normal_numbers(2 * n, 1), b = normal_numbers(2 * q, 2);
  std::vector<Numbers> gradients(2, Numbers(n * q));
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < q; ++j) {
      const Numbers noise = {a[i] * b[j], a[n + i] * b[q + j]};
      gradients[0][i * q + j] = 3 * noise[0] + noise[1];
      gradients[1][i * q + j] = noise[0] - noise[1];
    }
  Ranks ranks(2, kForced, {{0, n, q}});
  const auto results = ranks.average(gradients);
  EXPECT_LT(distance(results[0], mean_of(gradients)) / std::sqrt(squared_norm(results[0])), 1e-5);
}

TEST(LowRank, IsExactAtFullRank) {
  for (const auto& [n, q] : {std::pair{5, 9}, {9, 5}, {2, 2}, {6, 6}, {3, 400}}) {
    const auto rows = static_cast<std::size_t>(n), columns = static_cast<std::size_t>(q);
    Ranks ranks(2, {100, 1e-9, 0}, {{0, rows, columns}});
    std::vector<Numbers> gradients = {normal_numbers(rows * columns, 3),
                                      normal_numbers(rows * columns, 4)};
    const auto results = ranks.average(gradients);
    EXPECT_LT(distance(results[0], mean_of(gradients)), 1e-4) << n << " x " << q;
  }
}

TEST(LowRank, ColumnsAreOrthonormalAlsoWhereTheyDependOnEachOther) {
  const std::size_t n = 40, q = 30, r = 4;
  for (const bool of_rank_one : {false, true}) {
    Ranks ranks(1, {static_cast<int>(r), 1e-9, 0}, {{0, n, q}});
    Numbers gradients = normal_numbers(n * q, 5);
    if (of_rank_one)
      for (std::size_t i = 0; i < n * q; ++i)
        gradients[i] = static_cast<float>(i / q) * (i % q == 3 ? 2.f : 0.f);
    ranks.average({gradients});
    for (std::size_t a = 0; a < r; ++a)
      for (std::size_t b = 0; b <= a; ++b) {
        double dot = 0;
        for (std::size_t i = 0; i < n; ++i)
          dot += static_cast<double>(ranks.p()[a * n + i]) * ranks.p()[b * n + i];
        EXPECT_NEAR(dot, a == b ? 1 : 0, 1e-5) << a << " " << b;
      }
  }
}

// Zeros must not leave it with a Q of zeros, from which nothing would ever come again.
TEST(LowRank, RecoversFromGradientsOfZero) {
  Ranks ranks(1, {10, 1e-9, 0}, {{0, 10, 10}});
  const Numbers zeros(100), gradients = normal_numbers(100, 6);
  EXPECT_EQ(ranks.average({zeros})[0], zeros);
  EXPECT_LT(distance(ranks.average({gradients})[0], gradients), 1e-3);
}

// The power iteration from step to step finds the largest directions.
TEST(LowRank, ApproachesTheBestOfItsRankWhileGradientsStay) {
  const std::size_t n = 30;
  Numbers diagonal(n * n);
  for (std::size_t i = 0; i < n; ++i) diagonal[i * n + i] = i < 2 ? 10.f : 1.f;
  LowRankRule rule = kForced;
  Ranks ranks(1, rule, {{0, n, n}});
  Numbers sent(n * n);
  const int steps = 60;
  for (int step = 0; step < steps; ++step) {
    const Numbers result = ranks.average({diagonal})[0];
    for (std::size_t i = 0; i < sent.size(); ++i) sent[i] += result[i] / steps;
  }
  // With error feedback even the small directions come, late.
  EXPECT_LT(distance(sent, diagonal) / std::sqrt(squared_norm(diagonal)), 0.35);
}

TEST(LowRank, VectorsAndWhatShrinksTooLittleGoAsTheyAre) {
  const LowRankRule rule{1, 2, 0};
  // 4 x 4 shrinks by 2, not by more; 100 x 100 by 50.
  std::vector<Tensor2d> tensors = {{0, 10, 1}, {10, 4, 4}, {26, 100, 100}, {10026, 3, 1}};
  Ranks ranks(2, rule, tensors);
  const std::vector<Numbers> gradients = {whole_numbers(10029, 7), whole_numbers(10029, 8)};
  const Numbers mean = mean_of(gradients);
  const Numbers result = ranks.average(gradients)[0];
  for (std::size_t i = 0; i < 26; ++i) EXPECT_EQ(result[i], mean[i]);
  for (std::size_t i = 10026; i < 10029; ++i) EXPECT_EQ(result[i], mean[i]);
  EXPECT_EQ(ranks.p().size(), 100u + 29u);
  EXPECT_EQ(ranks.rank(0).kept().count(), 100u);
}

TEST(LowRank, HollowGradientsHaveSizesOnly) {
  const std::vector<Tensor2d> tensors = {{0, 100, 200}, {20000, 10, 1}};
  LowRank hollow({2, 2, 0}, tensors, Values::hollow(20010, Type::fp32), 1);
  EXPECT_EQ(hollow.left(Values::hollow(20010, Type::fp32)).count(), 210u);
  EXPECT_TRUE(hollow.left(Values::hollow(20010, Type::fp32)).is_hollow());
  EXPECT_EQ(hollow.right().count(), 400u);
  hollow.finish(Values::hollow(20010, Type::fp32));
  EXPECT_TRUE(hollow.kept().is_hollow());
  EXPECT_THROW(hollow.left(Values::hollow(7, Type::fp32)), InternalError);
}

TEST(LowRank, NanMakesTheWholeMatrixNan) {
  Ranks ranks(2, kForced, {{0, 20, 30}});
  std::vector<Numbers> gradients = {normal_numbers(600, 9), normal_numbers(600, 10)};
  gradients[1][77] = NAN;
  const Numbers result = ranks.average(gradients)[0];
  for (const float x : result) EXPECT_TRUE(std::isnan(x));
}

}  // namespace
}  // namespace lockstep
