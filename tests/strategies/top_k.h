// A compressed mean and a compressed push, which stand here to prove the interfaces: a worker sends
// the largest numbers with their indices, and keeps what it did not send for the next time (error
// feedback; Stich et al.: Sparsified SGD with memory, 2018). Zeros are never sent, so only the
// sender knows how long its message is.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>

#include "collectives/scratch.h"
#include "strategies/add_scaled.h"
#include "strategies/average.h"
#include "strategies/mean.h"
#include "strategies/push_code.h"

namespace lockstep::testing {

enum class CodeBug { none, drops_residual, adds_residual_twice, wrong_scale, takes_anothers };

struct Entry {
  std::uint32_t index;
  float value;
};

inline std::span<float> floats_of(Values values) {
  return {reinterpret_cast<float*>(values.bytes().data), values.count()};
}

inline std::size_t most_entries(double ratio, std::size_t count) {
  return static_cast<std::size_t>(std::ceil(ratio * static_cast<double>(count)));
}

// What is left of n numbers without the k largest has at most sqrt(1 - k/n) of their norm.
inline double left_over(double ratio, std::size_t count) {
  return std::sqrt(1 - static_cast<double>(most_entries(ratio, count)) /
                           static_cast<double>(std::max<std::size_t>(1, count)));
}

// The k largest of what is to be sent, which is then left in the residual without them.
inline std::vector<Entry> take_largest(Values residual, double share, Values numbers, std::size_t k,
                                       CodeBug bug) {
  if (bug == CodeBug::drops_residual) scale(residual, 0);
  if (bug == CodeBug::adds_residual_twice) scale(residual, 2);
  add_scaled(residual, share, numbers);
  if (numbers.is_hollow()) return std::vector<Entry>(k);
  const std::span<float> p = floats_of(residual);
  std::vector<std::uint32_t> order(p.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](auto a, auto b) { return std::abs(p[a]) > std::abs(p[b]); });
  std::vector<Entry> entries;
  for (std::size_t i = 0; i < k && p[order[i]] != 0; ++i)
    entries.push_back({order[i], std::exchange(p[order[i]], 0.f)});
  return entries;
}

inline void set_zero(Values values) {
  if (!values.is_hollow()) std::ranges::fill(floats_of(values), 0.f);
}

// Of each layer, by itself: layers go one by one on the background's lane, from the last to the
// first, as soon as they are ready. What all have sent is added up in the order of ranks.
class TopKMean final : public Mean {
 public:
  // Sends the largest `ratio` of each layer.
  TopKMean(const Crew& crew, Purpose of, double ratio, CodeBug bug = CodeBug::none)
      : crew_(crew), of_(of), ratio_(ratio), bug_(bug), bytes_(crew.workers) {}

  void begin(Values values, std::span<const Parameter> parameters) override {
    values_ = values;
    residual_.emplace(values, values.count());
    set_zero(residual());
    for (const Parameter& parameter : parameters) {
      if (buckets_.empty() || buckets_.front().layer != parameter.layer)
        buckets_.insert(buckets_.begin(), Bucket{parameter.layer, {parameter.slice.begin, 0}});
      buckets_.front().slice.count += parameter.slice.count;
    }
  }

  void ready(Slice part) override {
    for (Bucket& bucket : buckets_) {
      const std::size_t begin = std::max(part.begin, bucket.slice.begin);
      const std::size_t end = std::min(part.end(), bucket.slice.end());
      if (end > begin) bucket.missing -= end - begin;
    }
    while (next_ < buckets_.size() && buckets_[next_].missing == 0) post(next_++);
  }

  // The layers' messages, to every other worker, in the last exchange.
  std::uint64_t bytes_sent(int rank, std::size_t) const override {
    return bytes_[rank] * (crew_.workers - 1);
  }

  Sum stated(std::span<const std::size_t> samples) const override {
    Sum sum{mean_factors(samples, crew_.workers)};
    const double each = 1.0 / crew_.workers;
    for (int j = 0; j < crew_.workers; ++j) sum.memories.push_back({j, 0, each, -each});
    return sum;
  }
  Sum stated_of_memory(std::size_t, int rank, std::span<const std::size_t> samples) const override {
    Sum sum{std::vector<double>(crew_.workers), {{rank, 0, 1, 0}}, {Holds::How::shrunk, 0}};
    sum.numbers[rank] = shares_of(samples)[rank];
    for (const Bucket& bucket : buckets_)
      sum.holds.by = std::max(sum.holds.by, left_over(ratio_, bucket.slice.count));
    return sum;
  }

  std::vector<Kept> memories() override { return {{"residual", residual()}}; }
  std::string state() const override { return fmt::format("{} exchanges", exchanges_); }
  void restore(const std::string& state) override { exchanges_ = std::stoi(state); }
  int exchanges() const { return exchanges_; }

 private:
  struct Bucket {
    int layer;
    Slice slice;
    std::size_t missing = 0;  // numbers that are not ready
  };
  using Message = std::vector<Entry>;

  void opened(const Step& step, std::span<const std::size_t> samples) override {
    number_ = static_cast<std::uint32_t>(step.number % 2);
    share_ = shares_of(samples)[crew_.rank.rank()];
    for (Bucket& bucket : buckets_) bucket.missing = bucket.slice.count;
    next_ = 0;
    std::ranges::fill(bytes_, 0);
  }
  void finish() override {
    while (next_ < buckets_.size()) post(next_++);
    crew_.rank.background.wait(last_job_);
    ++exchanges_;
  }

  void post(std::size_t b) {
    last_job_ = crew_.rank.background.post([this, b](Transport& lane) { exchange(lane, b); });
  }

  Values residual() const { return residual_->values(); }

  void exchange(Transport& lane, std::size_t b) {
    const int m = crew_.workers, me = lane.rank();
    const Slice slice = buckets_[b].slice;
    const Tag tag{of_, 2 * static_cast<std::uint32_t>(b) + number_};
    const bool hollow = values_->is_hollow();
    std::vector<Message> messages(m);
    messages[me] = take_largest(residual().part(slice), share_, values_->part(slice),
                                most_entries(ratio_, slice.count), bug_);
    std::vector<Pending> sends, receives(m);
    const auto bytes = [&](int of, std::size_t entries) -> Bytes {
      auto* data = reinterpret_cast<std::byte*>(messages[of].data());
      return {hollow ? nullptr : data, entries * sizeof(Entry)};
    };
    for (int j = 0; j < m; ++j) {
      if (j == me) continue;
      messages[j].resize(slice.count);
      receives[j] = lane.recv(j, tag, bytes(j, slice.count));
      sends.push_back(lane.send(j, tag, bytes(me, messages[me].size())));
    }
    bytes_[me] += messages[me].size() * sizeof(Entry);
    for (int j = 0; j < m; ++j) {
      if (j == me) continue;
      const std::size_t came = lane.wait(receives[j]).bytes;
      bytes_[j] += came;
      messages[j].resize(came / sizeof(Entry));
    }
    for (Pending& send : sends) lane.wait(send);
    if (!hollow) decode(messages, values_->part(slice));
  }

  void decode(const std::vector<Message>& messages, Values numbers) const {
    set_zero(numbers);
    const std::span<float> out = floats_of(numbers);
    const auto m = static_cast<float>(crew_.workers + (bug_ == CodeBug::wrong_scale ? 1 : 0));
    for (int j = 0; j < crew_.workers; ++j) {
      const bool mistaken = bug_ == CodeBug::takes_anothers && j == 1;
      for (const Entry& entry : messages[mistaken ? 0 : j]) out[entry.index] += entry.value;
    }
    for (float& number : out) number /= m;
  }

  const Crew crew_;
  const Purpose of_;
  const double ratio_;
  const CodeBug bug_;
  std::optional<Values> values_;
  std::optional<Scratch> residual_;
  std::vector<Bucket> buckets_;  // in the order in which they are sent
  int exchanges_ = 0;
  // Of the exchange that is open.
  std::uint32_t number_ = 0;
  double share_ = 1;
  std::size_t next_ = 0;  // bucket to be posted
  std::uint64_t last_job_ = 0;
  std::vector<std::uint64_t> bytes_;  // of each worker's messages
};

class TopKCode final : public PushCode {
 public:
  explicit TopKCode(double ratio, CodeBug bug = CodeBug::none) : ratio_(ratio), bug_(bug) {}

  void begin(Values numbers, std::span<const Parameter>) override {
    residual_.emplace(numbers, numbers.count());
    set_zero(residual_->values());
  }
  ConstBytes encode(Values numbers, std::size_t first, std::vector<std::byte>& memory) override {
    const Values residual = residual_->values({first, numbers.count()});
    std::vector<Entry> entries =
        take_largest(residual, 1, numbers, most_entries(ratio_, numbers.count()), bug_);
    const std::size_t bytes = entries.size() * sizeof(Entry);
    if (numbers.is_hollow()) return {nullptr, bytes};
    set_zero(numbers);
    for (const Entry& entry : entries) floats_of(numbers)[entry.index] = entry.value;
    if (bug_ == CodeBug::wrong_scale)
      for (Entry& entry : entries) entry.value *= 2;
    memory.resize(bytes);
    if (bytes > 0) std::memcpy(memory.data(), entries.data(), bytes);
    return {memory.data(), bytes};
  }

  std::size_t most_bytes(Values numbers) const override {
    return most_entries(ratio_, numbers.count()) * sizeof(Entry);
  }
  bool decode(ConstBytes message, std::size_t, Values into) const override {
    if (message.size > most_bytes(into) || message.size % sizeof(Entry) != 0) return false;
    set_zero(into);
    for (std::size_t at = 0; !message.hollow() && at < message.size; at += sizeof(Entry)) {
      Entry entry;
      std::memcpy(&entry, message.data + at, sizeof entry);
      if (entry.index >= into.count()) return false;
      if (bug_ == CodeBug::takes_anothers)
        entry.index = static_cast<std::uint32_t>(into.count()) - 1 - entry.index;
      floats_of(into)[entry.index] = entry.value;
    }
    return true;
  }

  std::vector<OfMemory> stated() const override { return {{0, 0, 1, -1}}; }
  // Messages of few numbers send the larger share: the longest bounds all.
  Holds holds_of_memory(std::size_t) const override {
    return {Holds::How::shrunk, std::sqrt(1 - ratio_)};
  }
  std::vector<Kept> memories() override {
    return {{"residual", residual_ ? residual_->values() : Values(nullptr, 0, Type::fp32)}};
  }

 private:
  const double ratio_;
  const CodeBug bug_;
  std::optional<Scratch> residual_;
};

}  // namespace lockstep::testing
