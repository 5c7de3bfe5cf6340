#include "strategies/outer_loop.h"

#include <algorithm>
#include <sstream>

#include "strategies/add_scaled.h"
#include "strategies/average.h"

namespace lockstep {

OuterLoop::OuterLoop(const Crew& crew, std::uint64_t period, Names names)
    : Strategy(crew, {.statement = this, .measured = this}),
      period_(period),
      names_(std::move(names)),
      mean_(make_mean(crew, Purpose::weights)),
      since_(crew.workers) {}

void OuterLoop::begin(Replica& replica) {
  const Values weights = replica.weights();
  replica_ = &replica;
  mean_->begin(weights, replica.parameters());
  for (auto* memory : {&start_, &momentum_})
    copy(memory->emplace(weights, weights.count()).values().bytes(), weights.bytes());
  add_scaled(momentum_->values(), -1, weights);  // zero
}

void OuterLoop::update(Replica& replica, const Step& step) {
  since_ = since_start(step);
  next_ = step.number + 1;
  ended_ = ends_round(step);
  replica.apply_gradients(step.number);
  if (!ended_) return;
  const Values weights = replica.weights();
  mean_->run(step, since_);
  outer_step(weights, start_->values(), momentum_->values(), replica.learning_rate(step.number));
  copy(weights.bytes(), start_->values().bytes());
}

// Samples of each worker since the round began, those of this step among them.
std::vector<std::size_t> OuterLoop::since_start(const Step& step) const {
  if (step.number < next_) return since_;
  std::vector<std::size_t> since(step.samples.begin(), step.samples.end());
  if (!ended_)
    std::transform(since.begin(), since.end(), since_.begin(), since.begin(), std::plus<>());
  return since;
}

// At the end of a round.
Flow OuterLoop::flow_of(const Factors& factors, const Step& step, std::size_t count) const {
  Mean::Sum mean = mean_->stated(since_start(step));
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
  const auto own = only(rank, crew_.workers);
  if (!ends_round(step)) return {{{0, count}, own, own}};
  Flow flow = flow_of(of_start(replica_->learning_rate(step.number)), step, count);
  flow.gradients = own;
  return {flow};
}

std::vector<Flow> OuterLoop::flows_of_memory(std::size_t which, const Step& step, int rank,
                                             std::size_t count) const {
  if (!ends_round(step)) return {flow_of_kept_memory(which, count, crew_.workers)};
  if (which >= kOwnMemories)
    return {flow_of_memory(mean_->stated_of_memory(which - kOwnMemories, rank, since_start(step)),
                           Purpose::weights, count, crew_.workers, kOwnMemories)};
  const double gamma = replica_->learning_rate(step.number);
  return {flow_of(which == 0 ? of_start(gamma) : of_momentum(gamma), step, count)};
}

std::uint64_t OuterLoop::bytes_sent(const Step& step, int rank, std::size_t count) const {
  return ends_round(step) ? mean_->bytes_sent(rank, count) : 0;
}

void OuterLoop::read_model(Replica& replica, Values model) {
  read_mean(crew_, replica.weights(), model, shares_in_model());
}

Flow OuterLoop::flow_of_model(int, std::size_t count) const {
  return flow_of_mean(crew_, count, shares_in_model());
}

// What each worker counts for in the model, in a round; else all have the same.
std::vector<double> OuterLoop::shares_in_model() const {
  return ended_ ? std::vector<double>(crew_.workers, 1) : shares_of(since_);
}

std::vector<Kept> OuterLoop::memories() {
  if (!start_) return {};
  std::vector<Kept> all{{names_.start, start_->values(), true},
                        {names_.momentum, momentum_->values(), false}};
  for (Kept& kept : mean_->memories()) all.push_back(std::move(kept));
  return all;
}

std::string OuterLoop::state() const {
  return with_state(fmt::format("{} {} {}", next_, ended_ ? 1 : 0, fmt::join(since_, " ")),
                    mean_->state());
}

void OuterLoop::restore(const std::string& state) {
  std::istringstream in(state);
  in >> next_ >> ended_;
  for (std::size_t& samples : since_) in >> samples;
  if (!in)
    throw UsageError(
        fmt::format("the saved state of {} is damaged or of other workers", names_.strategy));
  mean_->restore(state_behind(in));
}

}  // namespace lockstep
