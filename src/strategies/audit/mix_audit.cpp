#include "strategies/audit/mix_audit.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "collectives/all_gather.h"
#include "strategies/audit/watched_replica.h"
#include "transport/channels.h"

namespace lockstep {
namespace {

// Masses are whole numbers of 2^-47, so sums of them are exact; halves may differ by one.
constexpr double kUnit = 0x1p-46;

}  // namespace

MixAudit::MixAudit(const Rank& rank)
    : on_(true), rank_(rank.rank()), seed_(mixed(rank.seed ^ purpose_of("audit"))) {}

Projection MixAudit::of(Values values, Slice part, std::size_t first) const {
  if (!on_) return {};
  if (values.is_hollow())
    throw UsageError(
        "the audit needs numbers, and this replica has only sizes: run it with numerics=on, or "
        "without the audit");
  return project(values, part, seed_, first);
}

void MixAudit::expect(std::string_view what, Values found, std::span<const Term> mix,
                      std::size_t first) const {
  if (on_) expect(what, of(found, first), mix, found.count());
}

void MixAudit::expect(std::string_view what, const Projection& found, std::span<const Term> mix,
                      std::size_t count, double loses) const {
  if (!on_) return;
  if (const auto wrong = mismatch(found, mix, count, loses)) fail("the {} {}", what, *wrong);
}

void WeightBook::takes(std::vector<Term> theirs_and_own) {
  if (!proof_.on()) return;
  --arrived_;
  mix_ = std::move(theirs_and_own);
}

void WeightBook::mixes(std::span<const Massed> theirs) {
  if (!proof_.on()) return;
  --arrived_;
  if (!had_mass_)
    throw InternalError("audit: a mean by masses, and nobody said what this rank has");
  const double own = *had_mass_ + mass_;
  double all = own;
  for (const Massed& part : theirs) all += part.mass;
  for (Term& term : mix_) term.factor *= own / all;
  for (const Massed& part : theirs) {
    mix_.push_back({part.mass / all, part.of});
    mass_came(part.mass, part.from);
  }
}

void WeightBook::adds(std::span<const Term> sum) {
  if (!proof_.on()) return;
  --arrived_;
  mix_.insert(mix_.end(), sum.begin(), sum.end());
}

void WeightBook::becomes(std::initializer_list<Term> sum) {
  if (proof_.on()) mix_.assign(sum);
}

void WeightBook::owes(std::initializer_list<Term> sum) {
  if (proof_.on()) owed_.insert(owed_.end(), sum.begin(), sum.end());
}

void WeightBook::owes_change() {
  if (proof_.on()) owed_.insert(owed_.end(), change_.begin(), change_.end());
}

void WeightBook::may_lose(const Holds& holds) {
  if (holds.how == Holds::How::within) loses_ = std::max(loses_, holds.by);
}

void WeightBook::pushed(const Projection& numbers) {
  if (proof_.on()) pushed_ += numbers;
}

void WeightBook::starts_with_mass(double mass, int workers) {
  if (proof_.on() && std::abs(mass - 1.0 / workers) > kUnit)
    proof_.fail("it begins with a mass of {}, as one of {} workers", mass, workers);
  workers_ = workers;
  had_mass_ = mass;
  mass_ = 0;
}

void WeightBook::mass_came(double mass, int from) {
  mass_ += mass;
  mass_by_rank_[from] += mass;
}

void WeightBook::mass_left(double mass, double kept, int to) {
  if (proof_.on() && std::abs(kept - mass) > kUnit)
    proof_.fail("it sent a mass of {} and kept {} where both are a half", mass, kept);
  mass_ -= mass;
  mass_by_rank_[to] -= mass;
}

void WeightBook::has_mass(double mass) {
  if (proof_.on() && had_mass_ && mass != *had_mass_ + mass_)
    proof_.fail("its mass is {}, where it had {} and {} came or left since", mass, *had_mass_,
                mass_);
  had_mass_ = mass;
  mass_ = 0;
}

void WeightBook::counts_for(double mass) const {
  if (proof_.on() && had_mass_ && mass != *had_mass_ + mass_)
    proof_.fail("it counts for {} in the model, and its mass is {}", mass, *had_mass_ + mass_);
}

void WeightBook::prove_masses(Transport& workers) const {
  if (!proof_.on()) return;
  // Where nobody is gone nothing came back, and of its own it has what it began with, or nothing.
  const auto of_its_own = mass_by_rank_.find(workers.job_rank(workers.rank()));
  if (workers.size() == workers_ && of_its_own != mass_by_rank_.end())
    if (const double mass = std::abs(of_its_own->second);
        mass > kUnit && std::abs(mass - 1.0 / workers_) > kUnit)
      proof_.fail("a mass of {} came to it from nobody", of_its_own->second);
  std::vector<double> balances(workers.size());
  double& mine = balances[workers.rank()];
  for (int r = 0; r < workers.size(); ++r) {
    const auto moved = mass_by_rank_.find(workers.job_rank(r));
    if (r != workers.rank() && moved != mass_by_rank_.end()) mine += moved->second;
  }
  all_gather(workers, channels::kAudit, {balances.data(), balances.size(), Type::fp64});
  double sum = 0;
  for (const double balance : balances) sum += balance;
  // Far below what a message carries, far above the rounding of sums over a long run.
  if (std::abs(sum) > 1e-9)
    proof_.fail("of the mass that workers sent each other {} more came than was sent, and all rest",
                sum);
}

void WeightBook::check(std::string_view what, const Projection& weights) const {
  proof_.expect(what, weights, mix_, count_);
}

void WeightBook::check_pushed() {
  pushed_ += held_;
  proof_.expect("numbers that it pushed and those that it still has to push", pushed_, owed_,
                count_, std::exchange(loses_, 0));
  owed_.assign({{1, held_}});
  pushed_ = held_ = {};
}

void WeightBook::check_unchanged(Values weights) const {
  if (proof_.on() && is_open_ && proof_.of(weights) != mix_[0].of)
    proof_.fail("the weights changed between two updates");
}

void WeightBook::follow(Replica& replica, const std::function<void(Replica&)>& act) {
  if (!proof_.on()) return act(replica);
  if (!watched_) open(replica);
  act(*watched_);
  close();
}

Replica& WeightBook::open(Replica& replica) {
  if (!proof_.on()) return replica;
  const Values weights = replica.weights();
  check_unchanged(weights);
  count_ = weights.count();
  mix_.assign({{1, proof_.of(weights)}});
  is_open_ = true;
  stepped_ = 0;
  change_.clear();
  watched_ = std::make_unique<WatchedReplica>(
      replica,
      [this, weights](Slice part, double) {
        check("weights that its optimiser steps from", proof_.of(weights));
        before_ = proof_.of(weights.part(part), part.begin);
      },
      [this, weights](Slice part, double) {
        change_.push_back({1, proof_.of(weights.part(part), part.begin)});
        change_.push_back({-1, before_});
        mix_.assign({{1, proof_.of(weights)}});
        stepped_ += part.count;
      });
  return *watched_;
}

void WeightBook::close() {
  const Projection now = proof_.of(watched_->weights());
  watched_.reset();
  if (arrived_ > 0)
    proof_.fail("numbers to go on with came, and the weights were left without them");
  if (arrived_ < 0) proof_.fail("the weights were changed by numbers that did not come");
  check("weights that it goes on with", now);
  check_pushed();
  steps_ = count_ > 0 ? static_cast<double>(stepped_) / static_cast<double>(count_) : 0;
  mix_.assign({{1, now}});
}

void WeightBook::follow(Replica& replica, const Step& step, bool steps,
                        const std::function<void(Replica&)>& act) {
  follow(replica, act);
  if (proof_.on() && steps_ != (steps ? 1 : 0))
    proof_.fail("step {}: its optimiser stepped {} times where the strategy says {}", step.number,
                steps_, steps ? 1 : 0);
}

}  // namespace lockstep
