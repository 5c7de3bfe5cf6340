#include "strategies/bucket_mean.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "collectives/gather.h"
#include "collectives/scratch.h"
#include "compression/registry.h"
#include "strategies/add_scaled.h"
#include "strategies/average.h"
#include "strategies/bucket_average.h"
#include "strategies/bucket_feed.h"
#include "strategies/mean.h"

namespace lockstep {
namespace {

Tensor2d matrix_of(const Parameter& parameter, std::size_t bucket_begin) {
  const auto rows = static_cast<std::size_t>(parameter.shape.empty() ? 1 : parameter.shape[0]);
  const std::size_t columns = rows == 0 ? 1 : parameter.slice.count / rows;
  return {parameter.slice.begin - bucket_begin, rows, columns};
}

class BucketMean final : public Mean {
 public:
  BucketMean(const Crew& crew, Purpose of, const MeanRule& rule)
      : crew_(crew),
        of_(of),
        rule_(rule),
        jobs_(
            crew.rank, rule.buckets, rule.buckets.overlap,
            [this](std::size_t b, Transport& lane) { exchange(b, lane); },
            [this](const std::string& plan) { return text_of_first(crew_.rank.peers, plan); }) {
    if (!rule_.compression) return;
    const Compression& c = *rule_.compression;
    how_ = averaging_for(c, of);
    if (of != Purpose::gradients && (c.needs_sgd || how_ == Averaging::voted))
      throw UsageError(
          c.needs_sgd ? "this compression repeats SGD's momentum on gradients, and weights are to "
                        "be averaged: compress them by another"
                      : "a vote says which way each gradient points and not how far, and weights "
                        "are to be averaged: compress them by another");
    if (rule_.notes_losses && !c.is_linear(rule_.optimiser))
      throw UsageError(
          "the audit follows sums, and a gradient that is clipped or that has weight decay added "
          "before it is sent is none: leave clip and weight_decay out, or the audit");
    feeds_back_ = c.memories > 0;
    const bool notes = rule_.notes_losses && !c.lossless && how_ != Averaging::additive;
    if (c.needs_sgd) roles_.push_back(Role::momentum);
    if (feeds_back_ || notes) roles_.push_back(Role::residual);
    const bool twice = how_ == Averaging::two_shot || how_ == Averaging::voted;
    if (twice && (feeds_back_ || notes)) roles_.push_back(Role::second);
    if (how_ == Averaging::low_rank) roles_.push_back(Role::basis);
    if (of == Purpose::weights) roles_.push_back(Role::reference);
  }

  void begin(Values values, std::span<const Parameter> parameters) override {
    values_ = values;
    parameters_.assign(parameters.begin(), parameters.end());
    memories_.clear();
    for (const Role role : roles_) {
      if (role == Role::basis) continue;
      const Values memory = memories_.emplace_back(values, values.count()).values();
      if (role == Role::reference)
        copy(memory.bytes(), values.bytes());
      else if (!memory.is_hollow() && memory.count() > 0)
        std::memset(memory.bytes().data, 0, memory.bytes().size);
    }
    jobs_.feed().begin(parameters);
    use(jobs_.feed().buckets());
    if (how_ == Averaging::low_rank) open_basis();
  }

  void ready(Slice part) override { jobs_.feed().ready(part); }
  bool begins_early() const override { return rule_.buckets.overlap; }

  void all_hold(Values numbers) override {
    if (const auto reference = memory_of(Role::reference, {0, values_->count()}))
      copy(reference->bytes(), numbers.bytes());
  }

  std::uint64_t bytes_sent(int rank, std::size_t) const override {
    std::uint64_t bytes = 0;
    for (const Bucket& bucket : buckets_) bytes += bucket.average->bytes_sent(rank);
    return bytes;
  }

  Sum stated(std::span<const std::size_t> samples) const override {
    Sum sum{mean_factors(samples, crew_.workers)};
    if (!rule_.compression) return sum;
    const OptimiserTerms& sgd = rule_.optimiser;
    const double each = 1.0 / crew_.workers, before = feeds_back_ ? 1 : 0;
    const bool repeats = rule_.compression->needs_sgd && sgd.nesterov;
    for (double& factor : sum.numbers) factor *= repeats ? 1 + sgd.momentum : 1;
    for (int w = 0; w < crew_.workers; ++w) {
      if (const auto k = place_of_role(Role::momentum))
        sum.memories.push_back({w, *k, each * sgd.momentum, 0});
      if (const auto k = place_of_role(Role::residual))
        sum.memories.push_back({w, *k, each * before, -each});
      // Every worker knows what a vote has changed, and it counts once.
      if (const auto k = place_of_role(Role::second); k && (how_ != Averaging::voted || w == 0))
        sum.memories.push_back({w, *k, before, -1});
    }
    sum.holds = holds_of_result();
    return sum;
  }

  Sum stated_of_memory(std::size_t which, int rank,
                       std::span<const std::size_t> samples) const override {
    const OptimiserTerms& sgd = rule_.optimiser;
    const double share = shares_of(samples)[rank], before = feeds_back_ ? 1 : 0;
    Sum sum{std::vector<double>(crew_.workers), {}, {Holds::How::not_stated}};
    const auto of_reference = place_of_role(Role::reference);
    switch (roles_[which]) {
      case Role::reference:
        return stated(samples);
      case Role::momentum:  // u = momentum u + g, and zero where it is masked
        sum.numbers[rank] = share * (sgd.nesterov ? sgd.momentum : 1);
        sum.memories = {{rank, which, sgd.momentum, 0}};
        sum.holds = {Holds::How::shrunk, 1};
        break;
      case Role::residual:
        sum.numbers[rank] = share;
        sum.memories = {{rank, which, before, 0}};
        if (const auto k = place_of_role(Role::momentum)) {
          sum.numbers[rank] *= sgd.nesterov ? 1 + sgd.momentum : 1;
          sum.memories.push_back({rank, *k, sgd.momentum, 0});
        }
        if (of_reference) sum.memories.push_back({rank, *of_reference, -share, 0});
        // What it owned by another plan it sends to the owners of this one.
        if (const auto k = place_of_role(Role::second); k && rule_.buckets.measures_plan)
          sum.memories.push_back({rank, *k, before * crew_.workers, 0});
        sum.holds = holds_of_lost();
        break;
      case Role::second: {
        sum.numbers = mean_factors(samples, crew_.workers);
        sum.memories = {{rank, which, before, 0}};
        const double each = 1.0 / crew_.workers;
        for (int w = 0; w < crew_.workers; ++w)
          sum.memories.push_back({w, *place_of_role(Role::residual), each * before, -each});
        if (of_reference) sum.memories.push_back({rank, *of_reference, -1, 0});
        sum.holds = holds_of_second();
        break;
      }
      case Role::basis:
        break;
    }
    return sum;
  }

  std::vector<Kept> memories() override {
    std::vector<Kept> all;
    for (std::size_t k = 0; k < memories_.size(); ++k) {
      const bool is_reference = roles_[k] == Role::reference;
      all.push_back({std::string(name_of(roles_[k])), memories_[k].values(), is_reference, 0,
                     feeds_back_ || is_reference});
    }
    return all;
  }

  std::string state() const override { return jobs_.feed().state(); }
  void restore(const std::string& state) override {
    if (!rule_.buckets.measures_plan) return;
    if (jobs_.feed().restore(state)) hand_over_memories();
    use(jobs_.feed().buckets());
  }

  const Figures& figures() const override { return figures_; }

 private:
  // What a memory is for. Their order is that of memories().
  enum class Role { momentum, residual, second, basis, reference };
  static std::string_view name_of(Role role) {
    constexpr std::string_view names[] = {"momentum of messages", "residual", "residual of owners",
                                          "basis", "last mean"};
    return names[static_cast<int>(role)];
  }
  struct Bucket {
    Slice slice;
    std::unique_ptr<BucketAverage> average;
    std::uint64_t plain_bytes = 0;  // that this rank would send of the numbers as they are
    Values basis = {nullptr, 0, Type::fp32};
  };

  std::optional<std::size_t> place_of_role(Role role) const {
    const auto found = std::ranges::find(roles_, role);
    if (found == roles_.end()) return {};
    return static_cast<std::size_t>(found - roles_.begin());
  }
  std::optional<Values> memory_of(Role role, Slice part) const {
    const auto k = place_of_role(role);
    return k ? std::optional(memories_[*k].values(part)) : std::nullopt;
  }

  // Cuts the numbers anew.
  void use(const Buckets& plan) {
    buckets_.clear();
    figures_.buckets.assign(plan.size(), {});
    for (const Slice slice : plan) {
      const auto number = static_cast<std::uint32_t>(buckets_.size());
      BucketTerms terms{.crew = crew_,
                        .compression = rule_.compression ? &*rule_.compression : nullptr,
                        .of = of_,
                        .numbers = values_->part(slice),
                        .bucket = number,
                        .second = memory_of(Role::second, slice),
                        .optimiser = rule_.optimiser,
                        .figures = figures_.buckets[number],
                        .coding = figures_.coding,
                        .spans = figures_.spans};
      for (const Role role : {Role::momentum, Role::residual})
        if (const auto memory = memory_of(role, slice)) terms.memories.push_back(*memory);
      if (terms.optimiser.weights.count() > 0)
        terms.optimiser.weights = terms.optimiser.weights.part(slice);
      for (const Parameter& parameter : parameters_)
        if (parameter.slice.begin >= slice.begin && parameter.slice.end() <= slice.end())
          terms.tensors.push_back(matrix_of(parameter, slice.begin));
      buckets_.push_back({slice, make_bucket_average(terms),
                          average_bytes(crew_, crew_.rank.rank(), terms.numbers)});
      figures_.buckets[number].numbers = slice.count;
    }
    place_bases();
  }

  // The basis of each bucket is a part of one memory, by the order of tensors, so that it stays
  // where it is under any plan.
  void place_bases() {
    if (memories_.size() < roles_.size() || how_ != Averaging::low_rank) return;
    std::vector<Bucket*> in_order;
    for (Bucket& bucket : buckets_) in_order.push_back(&bucket);
    std::ranges::sort(in_order, {}, [](const Bucket* b) { return b->slice.begin; });
    const Scratch& all = memories_[*place_of_role(Role::basis)];
    std::size_t at = 0;
    for (Bucket* bucket : in_order) {
      const std::size_t count = bucket->average->basis().count();
      bucket->basis = all.values({at, count});
      at += count;
    }
  }
  void open_basis() {
    std::size_t count = 0;
    for (const Bucket& bucket : buckets_) count += bucket.average->basis().count();
    memories_.emplace(memories_.begin() + static_cast<std::ptrdiff_t>(*place_of_role(Role::basis)),
                      *values_, count);
    place_bases();
    for (const Bucket& bucket : buckets_)
      copy(bucket.basis.bytes(), bucket.average->basis().bytes());
  }

  void opened(const Step& step, std::span<const std::size_t> samples) override {
    if (!values_) throw InternalError("a mean is to be taken of numbers that it was never told of");
    step_ = step.number;
    shares_ = shares_of(samples);
    figures_.spans.clear();
    if (!jobs_.open()) return;
    hand_over_memories();
    use(jobs_.feed().buckets());
  }

  void finish() override {
    jobs_.finish();
    figures_.hidden_s = jobs_.hidden_s();
    for (std::size_t b = 0; b < buckets_.size(); ++b)
      figures_.buckets[b].hidden_s = jobs_.figures()[b].hidden_s;
  }

  void exchange(std::size_t b, Transport& lane) {
    const Bucket& bucket = buckets_[b];
    const Values numbers = values_->part(bucket.slice);
    const auto last = memory_of(Role::reference, bucket.slice);
    if (last) add_scaled(numbers, -1, *last);
    if (const double share = shares_[lane.rank()]; share != 1) scale(numbers, share);
    if (bucket.basis.count() > 0) copy(bucket.average->basis().bytes(), bucket.basis.bytes());
    // Buckets are as far apart as steps are, also the last of one step and the first of the next.
    const std::uint64_t turn = step_ * buckets_.size() + b;
    const Tag tag = tag_of(of_, {.number = turn, .epoch = 0, .samples = {}});
    bucket.average->run(lane, tag, step_, shares_);
    if (bucket.basis.count() > 0) copy(bucket.basis.bytes(), bucket.average->basis().bytes());
    if (last) {
      add_scaled(*last, 1, numbers);
      copy(numbers.bytes(), last->bytes());
    }
    Coding bytes;
    bytes.plain_bytes = bucket.plain_bytes;
    bytes.sent_bytes =
        rule_.compression ? bucket.average->bytes_sent(lane.rank()) : bucket.plain_bytes;
    figures_.buckets[b].coding += bytes;
    if (rule_.compression) figures_.coding += bytes;
  }

  Holds holds_of_result() const {
    const Compression& c = *rule_.compression;
    const double m = crew_.workers;
    // An operand is rounded when it is encoded, at most m - 1 times on its way and in the mean.
    if (how_ == Averaging::additive)
      return {Holds::How::within, std::pow(1 + std::sqrt(c.squared_error(1)), m + 1) - 1,
              (m + 1) * c.most_error_of_each};
    // The columns of both factors, each rounded as it is added.
    if (how_ == Averaging::low_rank) return {Holds::How::within, (c.low_rank.rank + m) * 0x1p-22};
    const bool is_stated = place_of_role(Role::residual) || c.lossless;
    return {is_stated ? Holds::How::exactly : Holds::How::not_stated, 0, 0,
            how_ == Averaging::voted ? 1.0 : 0.0};
  }
  // Of what is left of numbers that were encoded, in chunks of any size up to all.
  Holds holds_of_lost() const {
    const Compression& c = *rule_.compression;
    const double most = c.most_error(values_->count());
    if (!std::isfinite(most)) return {Holds::How::not_stated};
    return {Holds::How::shrunk, most, c.most_error_of_each};
  }
  // A vote goes with most of the votes, whose mean is a number from -1 to 1 of the same sign: so it
  // changes none by more than 1.
  Holds holds_of_second() const {
    return how_ == Averaging::voted ? Holds{Holds::How::shrunk, 0, 1} : holds_of_lost();
  }

  // What owners kept of the mean was for m numbers of one worker: as its own residual it goes to
  // whichever worker owns those numbers now. What only says how much was lost is of the old plan.
  void hand_over_memories() {
    const Slice all{0, values_->count()};
    const auto residual = memory_of(Role::residual, all), second = memory_of(Role::second, all);
    if (second && feeds_back_) add_scaled(*residual, crew_.workers, *second);
    if (residual && !feeds_back_) scale(*residual, 0);
    if (second) scale(*second, 0);
  }

  const Crew crew_;
  const Purpose of_;
  const MeanRule rule_;
  Averaging how_ = Averaging::additive;
  bool feeds_back_ = false;  // messages carry what was left out before
  std::vector<Role> roles_;
  std::optional<Values> values_;
  std::vector<Parameter> parameters_;
  std::vector<Scratch> memories_;  // by role
  std::vector<Bucket> buckets_;    // in the order in which they are sent
  Figures figures_;
  // Of the exchange that is open.
  std::uint64_t step_ = 0;
  std::vector<double> shares_;
  BucketJobs jobs_;  // the last: what is under way uses all of this
};

}  // namespace

MakeMean bucket_means(MeanRule rule) {
  return [rule = std::move(rule)](const Crew& crew, Purpose of) -> std::unique_ptr<Mean> {
    MeanRule own = rule;
    if (of != Purpose::gradients) {
      own.buckets = {};
      // Differences of weights get smaller than narrow numbers can be: what was rounded off in
      // every exchange would never arrive.
      const auto& code = own.compression;
      if (code && code->averaging == Averaging::additive && code->memories == 0)
        with_error_feedback(*own.compression);
    }
    own.buckets.measures_plan &= own.buckets.overlap;
    return std::make_unique<BucketMean>(crew, of, own);
  };
}

}  // namespace lockstep
