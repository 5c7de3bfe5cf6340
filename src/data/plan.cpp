#include "data/plan.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/error.h"

namespace lockstep {
namespace {

std::vector<std::size_t> class_counts(const Samples& all, const Shard& shard) {
  std::vector<std::size_t> counts(all.classes);
  for (std::uint32_t sample : shard) ++counts[all.labels[sample]];
  return counts;
}

void check_multiple(std::size_t batch, std::size_t classes) {
  if (batch % classes == 0) return;
  const std::size_t below = batch / classes * classes, above = below + classes;
  throw UsageError(fmt::format(
      "--balanced-batches needs a batch that is a multiple of the {} classes: {} is "
      "not; the nearest {}",
      classes, batch,
      below > 0 ? fmt::format("are {} and {}", below, above) : fmt::format("is {}", above)));
}

}  // namespace

Slice Plan::Share::at(std::size_t step) const {
  if (step >= steps) return {size, 0};
  // Leftover batch number j comes at the first step where (step + 1) * others / steps exceeds j.
  const std::size_t others = steps - balanced;
  const std::size_t before = step * others / steps, after = (step + 1) * others / steps;
  if (after == before) return {(step - before) * batch, batch};
  const std::size_t begin = balanced * batch + before * batch;
  return {begin, std::min(batch, size - begin)};
}

Plan::Plan(Samples all, PlanOptions options, std::uint64_t seed)
    : all_(all),
      options_(std::make_shared<const PlanOptions>(std::move(options))),
      global_batch_(
          std::accumulate(options_->batch.begin(), options_->batch.end(), std::size_t{0})),
      seed_(seed),
      counts_(options_->batch.size()) {
  for (std::size_t batch : options_->batch) {
    if (batch == 0) throw UsageError("a batch must hold at least 1 sample");
    if (options_->balanced) check_multiple(batch, all_.classes);
  }
  first_ = now_ = make_epoch(0);
  for (std::size_t w = 0; w < first_->shares.size(); ++w)
    if (const Share& share = first_->shares[w];
        options_->balanced && share.balanced == 0 && share.size > 0) {
      const auto counts = class_counts(all_, first_->shards[w]);
      const auto least = std::ranges::min_element(counts);
      throw UsageError(
          fmt::format("--balanced-batches: a batch of {} takes {} of each class, but its {} "
                      "samples hold "
                      "{} of class {}; use --split equal, a smaller batch or fewer workers",
                      options_->cut == Cut::common ? "all workers" : fmt::format("worker {}", w),
                      share.batch / all_.classes, share.size, *least, least - counts.begin()));
    }
}

Plan::Share Plan::share_of(std::size_t batch, const Shard& shard) const {
  Share share{shard.size(), batch, 0, 0};
  if (options_->balanced) {
    const auto counts = class_counts(all_, shard);
    share.balanced = *std::ranges::min_element(counts) / (share.batch / all_.classes);
  }
  share.steps = share.balanced + (share.leftover() + share.batch - 1) / share.batch;
  return share;
}

std::shared_ptr<const Plan::Epoch> Plan::make_epoch(int number) const {
  auto epoch = std::make_shared<Epoch>();
  epoch->number = number;
  const bool common = options_->cut == Cut::common;
  epoch->shards =
      options_->split.deal(all_, common ? 1 : workers(), Rng(seed_, number, purpose_of("split")));
  for (std::size_t w = 0; w < epoch->shards.size(); ++w) {
    const std::size_t batch = common ? global_batch_ : options_->batch[w];
    epoch->shares.push_back(share_of(batch, epoch->shards[w]));
    epoch->steps = std::max(epoch->steps, epoch->shares[w].steps);
  }
  if (options_->cut == Cut::by_share) cut_by_share(*epoch);
  return epoch;
}

// Sample k of a shard of S has its place at (k + 1/2) / S of the epoch. All samples in the order of
// their places, cut into global batches, give every worker its share of each.
void Plan::cut_by_share(Epoch& epoch) const {
  struct Place {
    double at;
    std::size_t worker;
    bool operator<(const Place& other) const {
      return at != other.at ? at < other.at : worker < other.worker;
    }
  };
  std::vector<Place> places;
  for (std::size_t w = 0; w < epoch.shards.size(); ++w)
    for (std::size_t k = 0; k < epoch.shards[w].size(); ++k)
      places.push_back(
          {(static_cast<double>(k) + .5) / static_cast<double>(epoch.shards[w].size()), w});
  std::ranges::sort(places, std::less<>());
  epoch.steps = 0;
  std::vector<std::uint32_t> taken(epoch.shards.size());
  epoch.begins = taken;
  for (const Slice batch : pieces({0, places.size()}, global_batch_)) {
    for (std::size_t i = batch.begin; i < batch.end(); ++i) ++taken[places[i].worker];
    epoch.begins.insert(epoch.begins.end(), taken.begin(), taken.end());
    ++epoch.steps;
  }
}

Slice Plan::batch_at(const Epoch& epoch, int worker, std::size_t step) const {
  if (options_->cut == Cut::own) return epoch.shares[worker].at(step);
  if (options_->cut == Cut::common) {
    const Slice all = epoch.shares[0].at(step), mine = chunk(all.count, workers(), worker);
    return {all.begin + mine.begin, mine.count};
  }
  const auto begin_of = [&](std::size_t t) {
    return epoch.begins[std::min(t, epoch.steps) * workers() + worker];
  };
  return {begin_of(step), begin_of(step + 1) - begin_of(step)};
}

const Plan::Epoch& Plan::at(int epoch) {
  if (!options_->reshard || epoch == 0) return *first_;
  if (now_->number != epoch) now_ = make_epoch(epoch);
  return *now_;
}

std::size_t Plan::steps(int epoch) { return at(epoch).steps; }

std::span<const std::size_t> Plan::samples(int epoch, std::size_t step) {
  const Epoch& now = at(epoch);
  for (int w = 0; w < workers(); ++w) counts_[w] = batch_at(now, w, step).count;
  return counts_;
}

// Shuffled; where batches are balanced, class c's samples are then dealt to places c, c + classes,
// …, so that every full batch has as many of each, and what is left over follows, shuffled again.
Shard Plan::order(int worker, const Epoch& epoch, int number) const {
  Rng rng(seed_, worker, purpose_of("shuffle") + static_cast<std::uint64_t>(number));
  Shard order = epoch.shards[worker];
  shuffle(order, rng);
  if (!options_->balanced) return order;
  const Share& share = epoch.shares[worker];
  const std::size_t each = share.balanced * share.batch / all_.classes;  // of a class
  std::vector<std::size_t> used(all_.classes);
  Shard placed(share.size), leftover;
  for (std::uint32_t sample : order) {
    const int c = all_.labels[sample];
    if (used[c] < each)
      placed[used[c]++ * all_.classes + c] = sample;
    else
      leftover.push_back(sample);
  }
  std::ranges::copy(leftover, placed.end() - std::ssize(leftover));
  return placed;
}

std::span<const std::uint32_t> Plan::indices(int worker, int epoch, std::size_t step) {
  const Epoch& now = at(epoch);
  const int reader = options_->cut == Cut::common ? 0 : worker;
  if (epoch != std::exchange(order_epoch_, epoch)) orders_.clear();
  const auto [found, is_new] = orders_.try_emplace(reader);
  if (is_new) found->second = order(reader, now, epoch);
  const Slice batch = batch_at(now, worker, step);
  return std::span(found->second).subspan(batch.begin, batch.count);
}

std::uint64_t Plan::steps_before(int epoch) {
  if (!options_->reshard) return first_->steps * static_cast<std::uint64_t>(epoch);
  while (std::ssize(before_) <= epoch)
    before_.push_back(before_.back() + steps(static_cast<int>(before_.size()) - 1));
  return before_[epoch];
}

Plan::Position Plan::position(std::uint64_t number) {
  if (first_->steps == 0) throw InternalError("a plan without samples has no steps");
  if (!options_->reshard) return {static_cast<int>(number / first_->steps), number % first_->steps};
  int epoch = static_cast<int>(before_.size()) - 1;
  while (epoch > 0 && before_[epoch] > number) --epoch;
  while (steps_before(epoch + 1) <= number) ++epoch;
  return {epoch, number - before_[epoch]};
}

std::vector<std::size_t> Plan::samples_by_worker() const {
  std::vector<std::size_t> samples;
  for (int w = 0; w < workers(); ++w) {
    if (options_->cut != Cut::common) {
      samples.push_back(first_->shares[w].size);
      continue;
    }
    const std::size_t all = first_->shares[0].size;
    samples.push_back(all / global_batch_ * chunk(global_batch_, workers(), w).count +
                      chunk(all % global_batch_, workers(), w).count);
  }
  return samples;
}

std::vector<int> Plan::idle() const {
  std::vector<int> idle;
  if (options_->reshard && options_->cut != Cut::common) return idle;
  const std::vector<std::size_t> samples = samples_by_worker();
  for (int w = 0; w < workers(); ++w)
    if (samples[w] == 0) idle.push_back(w);
  return idle;
}

std::vector<std::string> Plan::notices() const {
  std::vector<std::string> notices;
  std::size_t smaller = 0, empty = 0, others = 0, steps = 0;
  for (const Share& share : first_->shares) {
    empty += share.size == 0;
    smaller += share.size > 0 && share.size < share.batch;
    others += share.steps - share.balanced;
    steps += share.steps;
  }
  const std::size_t samples = all_.labels.size();
  if (options_->cut != Cut::own && samples < global_batch_)
    notices.push_back(
        fmt::format("the global batch of {} is more than the {} samples: a step takes all of them",
                    global_batch_, samples));
  if (options_->cut == Cut::own && smaller > 0)
    notices.push_back(
        fmt::format("{} of {} workers have fewer samples than their batch: their batch "
                    "is all they have, once an epoch",
                    smaller, workers()));
  if (options_->cut == Cut::common)
    empty = samples < static_cast<std::size_t>(workers()) ? workers() - samples : 0;
  if (empty > 0)
    notices.push_back(
        fmt::format("{} of {} workers have no samples and contribute nothing", empty, workers()));
  if (options_->balanced && others > 0)
    notices.push_back(
        fmt::format("{} of {} batches an epoch hold what is left over of the larger "
                    "classes and are not balanced",
                    others, steps));
  return notices;
}

}  // namespace lockstep
