#include "strategies/bucket_feed.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>
#include <utility>

namespace lockstep {
namespace {

// a + b * bytes by least squares. Nothing is known of a line with one size of messages: then
// starting is free, and buckets of one tensor are as good as any.
LineCost fitted(const std::map<std::size_t, double>& seconds_by_bytes) {
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (const auto& [bytes, seconds] : seconds_by_bytes) {
    const auto b = static_cast<double>(bytes);
    n += 1;
    x += b;
    y += seconds;
    xx += b * b;
    xy += b * seconds;
  }
  const double spread = n * xx - x * x;
  if (spread <= 0) return {};
  const double per_byte = std::max(0.0, (n * xy - x * y) / spread);
  const double start = (y - per_byte * x) / n;
  // No message starts before it is sent: then the line that fits best begins at nothing.
  return start >= 0 ? LineCost{start, per_byte} : LineCost{0, xy / xx};
}

std::vector<std::size_t> numbers_in(std::istream& in) {
  std::vector<std::size_t> numbers;
  for (std::size_t number; in >> number;) numbers.push_back(number);
  return numbers;
}

std::string text_of(std::span<const std::size_t> numbers) {
  return fmt::format("{}", fmt::join(numbers, " "));
}

}  // namespace

BucketFeed::BucketFeed(Clock& clock, BucketRule rule, Go go, Agree agree)
    : clock_(clock), rule_(std::move(rule)), go_(std::move(go)), agree_(std::move(agree)) {}

void BucketFeed::begin(std::span<const Parameter> parameters) {
  slices_.clear();
  tensors_.clear();
  for (const Parameter& parameter : parameters) {
    slices_.push_back(parameter.slice);
    tensors_.push_back({parameter.slice.count});
  }
  buckets_ = rule_.measures_plan ? bucket_each(tensors_)
             : rule_.plan        ? rule_.plan(tensors_)
                                 : single_bucket(tensors_);
}

std::vector<std::size_t> BucketFeed::counts() const {
  std::vector<std::size_t> counts;
  for (const Slice bucket : buckets_) counts.push_back(bucket.count);
  return counts;
}

std::vector<BucketFigures> BucketFeed::figures() const {
  std::vector<BucketFigures> figures(buckets_.size());
  for (std::size_t b = 0; b < buckets_.size(); ++b) figures[b].numbers = buckets_[b].count;
  return figures;
}

bool BucketFeed::open() {
  const bool changes = rule_.measures_plan && (exchanges_ == kAlone || exchanges_ == kTrial);
  if (changes) buckets_ = exchanges_ == kAlone ? single_bucket(tensors_) : measured_plan();
  ++exchanges_;
  is_open_ = true;
  missing_ = counts();
  next_ = 0;
  opened_s_ = clock_.now();
  return changes;
}

void BucketFeed::ready(Slice part) {
  if (!rule_.overlap) return;
  if (is_on_trial()) note_ready(part);
  for (std::size_t b = 0; b < buckets_.size(); ++b) missing_[b] -= common(part, buckets_[b]).count;
  while (next_ < buckets_.size() && missing_[next_] == 0) go_(next_++);
}

void BucketFeed::close() {
  while (next_ < buckets_.size()) go_(next_++);
  is_open_ = false;
}

void BucketFeed::note_ready(Slice part) {
  const double now = clock_.now() - opened_s_;
  for (std::size_t t = 0; exchanges_ == kAlone && t < tensors_.size(); ++t)
    if (common(part, slices_[t]).count > 0) tensors_[t].ready_s = now;
}

void BucketFeed::took(std::size_t count, double seconds) {
  const bool warms_up = exchanges_ == 1 || exchanges_ == kAlone + 1;
  if (!is_on_trial() || warms_up) return;
  double& least = took_s_.try_emplace(count * size_of(Type::fp32), seconds).first->second;
  least = std::min(least, seconds);
}

// Each cut is a decision by the time: a replay, which takes other times, makes those of the run
// that was recorded.
Buckets BucketFeed::measured_plan() const {
  const Buckets best = merged_best(tensors_, fitted(took_s_));
  std::vector<std::size_t> counts;
  std::size_t count = 0;
  for (std::size_t t = tensors_.size(); t-- > 0;) {
    count += tensors_[t].count;
    const bool ends = std::ranges::find(best, slices_[t].begin, &Slice::begin) != best.end();
    if (t == 0 || clock_.decided(ends)) counts.push_back(std::exchange(count, 0));
  }
  std::istringstream agreed(agree_ ? agree_(text_of(counts)) : text_of(counts));
  return buckets_of(numbers_in(agreed), tensors_);
}

std::string BucketFeed::state() const {
  if (!rule_.measures_plan) return {};
  return fmt::format("{} {}", exchanges_, text_of(counts()));
}

bool BucketFeed::restore(const std::string& state) {
  if (!rule_.measures_plan) return false;
  std::istringstream in(state);
  in >> exchanges_;
  buckets_ = buckets_of(numbers_in(in), tensors_);
  if (exchanges_ > kTrial) return false;
  exchanges_ = 0;
  buckets_ = bucket_each(tensors_);
  return true;
}

std::string BucketFeed::state_with(const std::string& behind) const {
  return rule_.measures_plan ? with_state(state(), behind) : behind;
}

std::string BucketFeed::restore_from(const std::string& state) {
  if (!rule_.measures_plan) return state;
  std::istringstream in(state);
  std::string own;
  std::getline(in, own);
  restore(own);
  return state_behind(in);
}

BucketJobs::BucketJobs(const Rank& rank, const BucketRule& rule, bool beside, Exchange exchange,
                       BucketFeed::Agree agree)
    : rank_(rank),
      beside_(beside),
      exchange_(std::move(exchange)),
      feed_(
          rank.clock, rule, [this](std::size_t bucket) { go(bucket); }, std::move(agree)) {}

// Jobs of an exchange that was never finished use this rank's memory.
BucketJobs::~BucketJobs() {
  abandoned_ = true;
  if (!is_under_way_) return;
  try {
    rank_.background.wait(last_job_);
  } catch (...) {  // an error of its own ends this rank; a kill comes again
  }
}

bool BucketJobs::open() {
  const bool changed = feed_.open();
  if (changed || figures_.empty()) figures_ = feed_.figures();
  ran_.assign(figures_.size(), {});
  return changed;
}

void BucketJobs::finish() {
  const double start = rank_.clock.now();
  feed_.close();
  if (!std::exchange(is_under_way_, false)) return;  // what is thrown here is the end of all jobs
  rank_.background.wait(last_job_);
  for (std::size_t b = 0; b < ran_.size(); ++b) {
    const double hidden_s = std::max(0.0, std::min(ran_[b].ended_s, start) - ran_[b].began_s);
    figures_[b].hidden_s += hidden_s;
    hidden_s_ += hidden_s;
  }
}

void BucketJobs::go(std::size_t bucket) {
  if (!beside_) return exchange_(bucket, rank_.peers);
  is_under_way_ = true;
  last_job_ = rank_.background.post([this, bucket](Transport& lane) {
    if (abandoned_) return;
    Ran& ran = ran_[bucket];
    ran.began_s = lane.now();
    exchange_(bucket, lane);
    ran.ended_s = lane.now();
    feed_.took(feed_.buckets()[bucket].count, ran.ended_s - ran.began_s);
  });
}

}  // namespace lockstep
