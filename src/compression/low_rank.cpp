#include "compression/low_rank.h"

#include <algorithm>
#include <cmath>

#include "compression/kernels.h"
#include "core/error.h"
#include "core/rng.h"

namespace lockstep {
namespace {

float* floats(Values values) { return reinterpret_cast<float*>(values.bytes().data); }

// Below this part of its length a column is what rounding left of one that the others span.
constexpr double kDependent = 1e-5;

// Takes what `column` has of the `before` columns in front of it away from it; twice, since the
// first time leaves rounding errors as large as what is left.
void make_orthogonal(float* column, std::size_t before, std::size_t n) {
  for (int pass = 0; pass < 2; ++pass)
    for (std::size_t c = before; c > 0; --c) {
      const float* other = column - c * n;
      code_kernels().add_scaled(-static_cast<float>(code_kernels().dot(other, column, n)), other,
                                column, n);
    }
}

double norm_of(const float* v, std::size_t n) {
  return std::sqrt(code_kernels().sum_of_squares(v, n));
}

}  // namespace

LowRank::LowRank(const LowRankRule& rule, std::span<const Tensor2d> tensors, Values error,
                 std::uint64_t seed)
    : error_(error) {
  for (const Tensor2d& t : tensors) {
    if (t.begin != count_)
      throw InternalError(fmt::format("a tensor at {} where {} is due", t.begin, count_));
    count_ += t.count();
    const std::size_t r = std::min({static_cast<std::size_t>(rule.rank), t.rows, t.columns});
    const std::size_t factors = r * (t.rows + t.columns);
    if (t.columns < 2 || t.rows < 2 ||
        static_cast<double>(t.count()) <= rule.least_saving * static_cast<double>(factors)) {
      whole_.push_back(t);
      continue;
    }
    factored_.push_back({t, r, left_count_, right_count_});
    left_count_ += r * t.rows;
    right_count_ += r * t.columns;
  }
  for (const Tensor2d& t : whole_) left_count_ += t.count();
  if (error_.count() != count_ || error_.type() != Type::fp32)
    throw InternalError(fmt::format("{} {} numbers for the errors of {} in fp32", error_.count(),
                                    name_of(error_.type()), count_));
  if (error_.is_hollow()) return;
  left_.resize(left_count_);
  right_.resize(right_count_);
  Rng random(seed, 0, purpose_of("powersgd"));
  for (float& x : right_) x = static_cast<float>(random.normal());
}

void LowRank::check(Values gradients) const {
  if (gradients.count() != count_ || gradients.type() != Type::fp32)
    throw InternalError(fmt::format("{} {} gradients: {} in fp32 are due", gradients.count(),
                                    name_of(gradients.type()), count_));
}

Values LowRank::left(Values gradients) {
  check(gradients);
  if (error_.is_hollow() || gradients.is_hollow())
    return Values::hollow(left_count_, Type::fp32, Op::mean);
  for (const Factored& f : factored_) {
    const auto& [begin, rows, columns] = f.tensor;
    const Slice slice{begin, f.tensor.count()};
    combine(error_.part(slice).as(Op::sum), gradients.part(slice).bytes());
    for (std::size_t row = 0; row < rows; ++row)
      for (std::size_t c = 0; c < f.rank; ++c)
        left_[f.left + c * rows + row] = static_cast<float>(code_kernels().dot(
            floats(error_) + begin + row * columns, &right_[f.right + c * columns], columns));
  }
  float* at = left_.data() + left_count_;
  for (const Tensor2d& t : whole_) at -= t.count();
  for (const Tensor2d& t : whole_) at = std::copy_n(floats(gradients) + t.begin, t.count(), at);
  return {left_.data(), left_count_, Type::fp32, Op::mean};
}

// Gram-Schmidt. A column that is zero or spanned by those before it gives way to the first unit
// vector that is not: were it left zero, so would Q be, and every P after it.
void LowRank::orthonormalise(const Factored& f) {
  const std::size_t n = f.tensor.rows;
  for (std::size_t c = 0; c < f.rank; ++c) {
    float* column = &left_[f.left + c * n];
    double least = kDependent * norm_of(column, n);
    make_orthogonal(column, c, n);
    double norm = norm_of(column, n);
    for (std::size_t unit = 0; norm <= least && unit < n; ++unit) {
      std::fill_n(column, n, 0.f);
      column[unit] = 1;
      make_orthogonal(column, c, n);
      norm = norm_of(column, n);
      least = 0.5 / std::sqrt(n);  // the squares of all unit vectors' norms add up to n - c
    }
    const auto scale = static_cast<float>(1 / norm);
    for (std::size_t i = 0; i < n; ++i) column[i] *= scale;
  }
}

Values LowRank::right() {
  if (error_.is_hollow()) return Values::hollow(right_count_, Type::fp32, Op::mean);
  std::ranges::fill(right_, 0.f);
  for (const Factored& f : factored_) {
    orthonormalise(f);
    const std::size_t rows = f.tensor.rows, columns = f.tensor.columns;
    const auto for_all = [&](auto what) {
      for (std::size_t row = 0; row < rows; ++row)
        for (std::size_t c = 0; c < f.rank; ++c)
          what(left_[f.left + c * rows + row], floats(error_) + f.tensor.begin + row * columns,
               &right_[f.right + c * columns]);
    };
    for_all(
        [&](float p, const float* m, float* q) { code_kernels().add_scaled(p, m, q, columns); });
    for_all(
        [&](float p, float* m, const float* q) { code_kernels().add_scaled(-p, q, m, columns); });
  }
  return {right_.data(), right_count_, Type::fp32, Op::mean};
}

void LowRank::finish(Values gradients) {
  check(gradients);
  if (error_.is_hollow() || gradients.is_hollow()) return;
  for (const Factored& f : factored_) {
    const auto& [begin, rows, columns] = f.tensor;
    for (std::size_t row = 0; row < rows; ++row) {
      float* into = floats(gradients) + begin + row * columns;
      std::fill_n(into, columns, 0.f);
      for (std::size_t c = 0; c < f.rank; ++c)
        code_kernels().add_scaled(left_[f.left + c * rows + row], &right_[f.right + c * columns],
                                  into, columns);
    }
  }
  const float* at = left_.data() + left_count_;
  for (const Tensor2d& t : whole_) at -= t.count();
  for (const Tensor2d& t : whole_) {
    std::copy_n(at, t.count(), floats(gradients) + t.begin);
    at += t.count();
  }
}

Values LowRank::kept() {
  if (error_.is_hollow()) return Values::hollow(right_count_, Type::fp32);
  return {right_.data(), right_count_, Type::fp32};
}

}  // namespace lockstep
