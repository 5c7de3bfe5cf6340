// Local SGD: every worker steps with its own gradient; every `period` steps the weights are
// averaged: w <- (1/m) sum_j w_j (Stich: Local SGD converges fast and communicates little, 2019).
// Post-local SGD averages after every step before epoch `from_epoch` (Lin et al.: Don't use large
// mini-batches, use local SGD, 2020).
#include "strategies/synchronous/local_sgd.h"

#include <algorithm>
#include <sstream>

#include "strategies/add_scaled.h"
#include "strategies/average.h"
#include "strategies/parameters.h"
#include "strategies/registry.h"

namespace lockstep {

LocalSgd::LocalSgd(const Crew& crew, std::string name, std::uint64_t period, int from_epoch)
    : Strategy(crew, {.statement = this, .measured = this}),
      mean_(make_mean(crew, Purpose::weights)),
      name_(std::move(name)),
      period_(period),
      from_epoch_(from_epoch),
      since_(crew.workers) {}

void LocalSgd::begin(Replica& replica) { mean_->begin(replica.weights(), replica.parameters()); }

void LocalSgd::update(Replica& replica, const Step& step) {
  since_ = since_average(step);
  next_ = step.number + 1;
  replica.apply_gradients(step.number);
  averaged_ = averages(step);
  if (averaged_) mean_->run(step, since_);
}

bool LocalSgd::averages(const Step& step) const {
  return step.epoch < from_epoch_ || (step.number + 1) % period_ == 0;
}

std::vector<std::size_t> LocalSgd::since_average(const Step& step) const {
  if (step.number < next_) return since_;
  std::vector<std::size_t> since(step.samples.begin(), step.samples.end());
  if (!averaged_)
    std::transform(since.begin(), since.end(), since_.begin(), since.begin(), std::plus<>());
  return since;
}

// What each worker counts for in the model, in a round; else all have the same.
std::vector<double> LocalSgd::shares_in_model() const {
  return averaged_ ? std::vector<double>(crew_.workers, 1) : shares_of(since_);
}

void LocalSgd::read_model(Replica& replica, Values model) {
  read_mean(crew_, replica.weights(), model, shares_in_model());
}

Flow LocalSgd::flow_of_model(int, std::size_t count) const {
  return flow_of_mean(crew_, count, shares_in_model());
}

std::vector<Flow> LocalSgd::flows(const Step& step, int rank, std::size_t count) const {
  const auto own = only(rank, crew_.workers);
  Flow flow{{0, count}, own, own};
  if (averages(step)) state_weights(flow, mean_->stated(since_average(step)), crew_.workers);
  return {flow};
}

std::vector<Flow> LocalSgd::flows_of_memory(std::size_t which, const Step& step, int rank,
                                            std::size_t count) const {
  if (!averages(step)) return {flow_of_kept_memory(which, count, crew_.workers)};
  return {flow_of_memory(mean_->stated_of_memory(which, rank, since_average(step)),
                         Purpose::weights, count, crew_.workers)};
}

std::uint64_t LocalSgd::bytes_sent(const Step& step, int rank, std::size_t count) const {
  return averages(step) ? mean_->bytes_sent(rank, count) : 0;
}

std::string LocalSgd::state() const {
  return with_state(fmt::format("{} {} {}", next_, averaged_ ? 1 : 0, fmt::join(since_, " ")),
                    mean_->state());
}

void LocalSgd::restore(const std::string& state) {
  std::istringstream in(state);
  in >> next_ >> averaged_;
  for (std::size_t& samples : since_) in >> samples;
  if (!in)
    throw UsageError(fmt::format("the saved state of {} is damaged or of other workers", name_));
  mean_->restore(state_behind(in));
}

OuterLoop::OuterLoop(const Crew& crew, std::uint64_t period, Names names)
    : LocalSgd(crew, names.strategy, period), names_(std::move(names)) {}

void OuterLoop::begin(Replica& replica) {
  LocalSgd::begin(replica);
  const Values weights = replica.weights();
  replica_ = &replica;
  for (auto* memory : {&start_, &momentum_})
    copy(memory->emplace(weights, weights.count()).values().bytes(), weights.bytes());
  add_scaled(momentum_->values(), -1, weights);  // zero
}

void OuterLoop::update(Replica& replica, const Step& step) {
  LocalSgd::update(replica, step);
  if (!averages(step)) return;
  const Values weights = replica.weights();
  outer_step(weights, start_->values(), momentum_->values(), replica.learning_rate(step.number));
  copy(weights.bytes(), start_->values().bytes());
  mean_->all_hold(weights);
}

// At the end of a round.
Flow OuterLoop::flow_of(const Factors& factors, const Step& step, std::size_t count) const {
  Mean::Sum mean = mean_->stated(since_average(step));
  for (double& weight : mean.numbers) weight *= factors.mean;
  for (OfMemory& memory : mean.memories) {
    memory.before *= factors.mean;
    memory.after *= factors.mean;
  }
  Flow flow{{0, count}, {}, {}};
  state_weights(flow, mean, crew_.workers, kOwnMemories);
  flow.memory = {factors.start, factors.momentum};
  return flow;
}

std::vector<Flow> OuterLoop::flows(const Step& step, int rank, std::size_t count) const {
  if (!averages(step)) return LocalSgd::flows(step, rank, count);
  Flow flow = flow_of(of_start(replica_->learning_rate(step.number)), step, count);
  flow.gradients = only(rank, crew_.workers);
  return {flow};
}

std::vector<Flow> OuterLoop::flows_of_memory(std::size_t which, const Step& step, int rank,
                                             std::size_t count) const {
  if (!averages(step)) return LocalSgd::flows_of_memory(which, step, rank, count);
  const double gamma = replica_->learning_rate(step.number);
  if (which >= kOwnMemories) {
    const std::size_t of_mean = which - kOwnMemories;
    // A model that the mean keeps is what all hold.
    if (mean_->memories()[of_mean].a_model) return {flow_of(of_start(gamma), step, count)};
    return {flow_of_memory(mean_->stated_of_memory(of_mean, rank, since_average(step)),
                           Purpose::weights, count, crew_.workers, kOwnMemories)};
  }
  return {flow_of(which == 0 ? of_start(gamma) : of_momentum(gamma), step, count)};
}

std::vector<Kept> OuterLoop::memories() {
  if (!start_) return {};
  std::vector<Kept> all{{names_.start, start_->values(), true},
                        {names_.momentum, momentum_->values(), false}};
  for (Kept& kept : mean_->memories()) all.push_back(std::move(kept));
  return all;
}

StrategyMaker local_sgd(const Options& options) {
  const std::int64_t period = at_least(1, options, "period");
  const std::int64_t from = at_least(0, options, "from_epoch");
  return {.make =
              [=](const Crew& crew) {
                return std::make_unique<LocalSgd>(crew, "local-sgd", period,
                                                  static_cast<int>(from));
              },
          .notice = exchanges_first_after(options, "period", from > 0 ? 1 : period),
          .travels = Travels::mean_of_weights};
}

}  // namespace lockstep
