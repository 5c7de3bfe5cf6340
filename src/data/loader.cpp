#include "data/loader.h"

#include "core/error.h"

namespace lockstep {

Loader::Loader(const Dataset& set, std::function<Picks(std::uint64_t)> picks, std::uint64_t end,
               ReaderPool* pool, int ahead)
    : set_(set),
      picks_(std::move(picks)),
      end_(end),
      pool_(set.slow() ? pool : nullptr),
      ahead_(pool_ ? static_cast<std::size_t>(ahead) : 0) {}

Loader::~Loader() {
  for (Ahead& ahead : started_) ahead.job->abandon();
}

Loader::Ahead Loader::start(std::uint64_t number) {
  if (number >= end_) throw InternalError(fmt::format("batch {} of {}", number, end_));
  Picks picks = picks_(number);
  std::vector<std::int64_t> sizes{std::ssize(picks.indices)};
  sizes.insert(sizes.end(), set_.shape().begin(), set_.shape().end());
  Batch batch{torch::empty(sizes, torch::kFloat32),
              torch::empty({std::ssize(picks.indices)}, torch::kInt64)};
  auto* y = batch.y.data_ptr<std::int64_t>();
  for (std::uint32_t index : picks.indices) *y++ = set_.labels()[index];
  auto job = std::make_shared<ReadJob>(set_, std::move(picks.indices), picks.variation,
                                       batch.x.data_ptr<float>());
  if (pool_) pool_->add(job);
  return {number, std::move(job), std::move(batch)};
}

Batch Loader::batch(std::uint64_t number) {
  while (!started_.empty() && started_.front().number != number) {
    started_.front().job->abandon();
    started_.pop_front();
  }
  if (started_.empty()) started_.push_back(start(number));
  while (started_.size() <= ahead_ && started_.back().number + 1 < end_)
    started_.push_back(start(started_.back().number + 1));
  const Ahead now = std::move(started_.front());
  started_.pop_front();
  now.job->finish();
  return now.batch;
}

}  // namespace lockstep
