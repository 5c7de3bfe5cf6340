#include "data/loader.h"

#include "core/error.h"

namespace lockstep {
namespace {

std::vector<std::int64_t> sizes_of(const Picks& picks, const Shape& each) {
  std::vector<std::int64_t> sizes{std::ssize(picks.indices)};
  sizes.insert(sizes.end(), each.begin(), each.end());
  return sizes;
}

}  // namespace

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
  Batch batch{torch::empty(sizes_of(picks, set_.shape()), torch::kFloat32),
              torch::empty(sizes_of(picks, set_.label_shape()), torch::kInt64)};
  set_.read_labels(picks.indices, picks.variation, batch.y.data_ptr<std::int64_t>());
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
  Ahead now = std::move(started_.front());
  started_.pop_front();
  now.job->finish();
  if (set_.tokens()) now.batch.x = now.batch.x.to(torch::kInt64);
  return now.batch;
}

}  // namespace lockstep
