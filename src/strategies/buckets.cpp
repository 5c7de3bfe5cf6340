#include "strategies/buckets.h"

#include <algorithm>
#include <limits>

#include "core/error.h"
#include "core/values.h"

namespace lockstep {
namespace {

// Tensors in the order of backward: number k is the k-th from the end.
class Backward {
 public:
  explicit Backward(std::span<const TensorGradient> tensors) : bytes_{0} {
    double ready = 0;
    for (auto t = tensors.rbegin(); t != tensors.rend(); ++t) {
      ready = std::max(ready, t->ready_s);
      ready_s_.push_back(ready);
      bytes_.push_back(bytes_.back() + size_of(Type::fp32) * t->count);
    }
  }

  std::size_t size() const { return ready_s_.size(); }
  // When all of the first k + 1 are ready. What is sent before number k was ready before, so this
  // is as good as when number k is.
  double ready_s(std::size_t k) const { return ready_s_[k]; }
  // Of numbers from..to-1.
  std::size_t bytes(std::size_t from, std::size_t to) const { return bytes_[to] - bytes_[from]; }

  // The buckets that end before each of these numbers.
  Buckets cut_at(std::span<const std::size_t> ends) const {
    Buckets buckets;
    std::size_t begin = 0, end_of_slice = bytes_.back() / size_of(Type::fp32);
    for (const std::size_t end : ends) {
      const std::size_t count = bytes(begin, end) / size_of(Type::fp32);
      buckets.push_back({end_of_slice - count, count});
      end_of_slice -= count;
      begin = end;
    }
    return buckets;
  }

 private:
  std::vector<double> ready_s_;
  std::vector<std::size_t> bytes_;  // of the first k
};

double sent_s(const LineCost& cost, double start_s, std::size_t bytes) {
  return start_s + cost.start_s + cost.per_byte_s * static_cast<double>(bytes);
}

}  // namespace

Buckets single_bucket(std::span<const TensorGradient> tensors) {
  if (tensors.empty()) return {};
  const std::size_t all[] = {tensors.size()};
  return Backward(tensors).cut_at(all);
}

Buckets bucket_each(std::span<const TensorGradient> tensors) {
  return buckets_by_size(tensors, 0, 0);
}

Buckets buckets_by_size(std::span<const TensorGradient> tensors, std::size_t first_bytes,
                        std::size_t bytes) {
  const Backward backward(tensors);
  std::vector<std::size_t> ends;
  for (std::size_t begin = 0, k = 0; k < backward.size(); ++k) {
    if (backward.bytes(begin, k + 1) < (begin == 0 ? first_bytes : bytes) &&
        k + 1 < backward.size())
      continue;
    ends.push_back(begin = k + 1);
  }
  return backward.cut_at(ends);
}

Buckets merged_greedily(std::span<const TensorGradient> tensors, const LineCost& cost) {
  const Backward backward(tensors);
  std::vector<std::size_t> ends;
  double finished_s = 0;
  for (std::size_t begin = 0, k = 0; k < backward.size(); ++k) {
    const double start_s = std::max(finished_s, backward.ready_s(k));
    if (k + 1 < backward.size() && backward.ready_s(k + 1) - start_s < cost.start_s) continue;
    finished_s = sent_s(cost, start_s, backward.bytes(begin, k + 1));
    ends.push_back(begin = k + 1);
  }
  return backward.cut_at(ends);
}

// What comes after a bucket ends the sooner the sooner that bucket does, so the best plan for the
// first tensors is part of the best one for more of them.
Buckets merged_best(std::span<const TensorGradient> tensors, const LineCost& cost) {
  const Backward backward(tensors);
  std::vector<double> best_s = {0};       // by how many tensors are sent
  std::vector<std::size_t> begins = {0};  // where the last bucket begins then
  for (std::size_t end = 1; end <= backward.size(); ++end) {
    best_s.push_back(std::numeric_limits<double>::infinity());
    begins.push_back(0);
    for (std::size_t begin = 0; begin < end; ++begin) {
      const double start_s = std::max(best_s[begin], backward.ready_s(end - 1));
      const double s = sent_s(cost, start_s, backward.bytes(begin, end));
      if (s >= best_s[end]) continue;
      best_s[end] = s;
      begins[end] = begin;
    }
  }
  std::vector<std::size_t> ends;
  for (std::size_t end = backward.size(); end > 0; end = begins[end]) ends.push_back(end);
  std::ranges::reverse(ends);
  return backward.cut_at(ends);
}

Buckets buckets_of(std::span<const std::size_t> counts, std::span<const TensorGradient> tensors) {
  std::size_t end = 0;
  for (const TensorGradient& tensor : tensors) end += tensor.count;
  Buckets buckets;
  auto tensor = tensors.rbegin();
  for (std::size_t count : counts) {
    buckets.push_back({end - std::min(end, count), count});
    end = buckets.back().begin;
    while (tensor != tensors.rend() && tensor->count <= count && count > 0)
      count -= (tensor++)->count;
    if (count > 0)
      throw UsageError(fmt::format(
          "a bucket of {} gradients cuts a tensor, or there are no more of them: buckets are whole "
          "tensors, from the last to the first",
          buckets.back().count));
  }
  if (end > 0) throw UsageError(fmt::format("the buckets leave out the first {} gradients", end));
  return buckets;
}

double finish_s(const Buckets& buckets, std::span<const TensorGradient> tensors,
                const LineCost& cost) {
  const Backward backward(tensors);
  double finished_s = 0;
  std::size_t begin = 0, end = 0;
  for (const Slice& bucket : buckets) {
    const std::size_t bytes = size_of(Type::fp32) * bucket.count;
    do ++end;
    while (end < backward.size() && backward.bytes(begin, end) < bytes);
    if (end > backward.size() || backward.bytes(begin, end) != bytes)
      throw InternalError(fmt::format("a bucket of {} bytes ends within a tensor", bytes));
    finished_s = sent_s(cost, std::max(finished_s, backward.ready_s(end - 1)), bytes);
    begin = end;
  }
  return finished_s;
}

}  // namespace lockstep
