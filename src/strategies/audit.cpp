#include "strategies/audit.h"

#include <algorithm>
#include <cmath>

#include "collectives/all_gather.h"
#include "strategies/projection.h"

namespace lockstep {
namespace {

constexpr Tag kExchange{Purpose::control, 0xa0d17};

// What one rank did with one part in one step. Doubles only: it is gathered as such.
struct Account {
  Projection before, gradient, stepped_with, stepped, after;
  double steps = 0;  // elements that the optimiser stepped
};
constexpr std::size_t kDoubles = sizeof(Account) / sizeof(double);
static_assert(kDoubles == 5 * (kProjections + 1) + 1);

Slice common(Slice a, Slice b) {
  const std::size_t begin = std::max(a.begin, b.begin), end = std::min(a.end(), b.end());
  return {begin, end > begin ? end - begin : 0};
}

// Sees what the optimiser steps with, and where it gets.
class WatchedReplica final : public Replica {
 public:
  WatchedReplica(Replica& inner, std::span<const Slice> parts, std::span<Account> accounts,
                 std::uint64_t seed)
      : inner_(inner), parts_(parts), accounts_(accounts), seed_(seed) {}

  Values weights() override { return inner_.weights(); }
  Values gradients() override { return inner_.gradients(); }
  using Replica::apply_gradients;
  void apply_gradients(std::uint64_t step, Slice part) override {
    for (std::size_t p = 0; p < parts_.size(); ++p)
      accounts_[p].stepped_with += project(gradients(), common(parts_[p], part), seed_);
    inner_.apply_gradients(step, part);
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      const Slice here = common(parts_[p], part);
      accounts_[p].stepped += project(weights(), here, seed_);
      accounts_[p].steps += static_cast<double>(here.count);
    }
  }
  double learning_rate(std::uint64_t step) const override { return inner_.learning_rate(step); }
  void forget() override { inner_.forget(); }

 private:
  Replica& inner_;
  const std::span<const Slice> parts_;
  const std::span<Account> accounts_;
  const std::uint64_t seed_;
};

class Audited final : public Strategy {
 public:
  Audited(std::unique_ptr<Strategy> inner, const Crew& crew)
      : Strategy(crew),
        inner_(std::move(inner)),
        seed_(mixed(crew.rank.seed ^ purpose_of("audit"))) {}

  void update(Replica& replica, const Step& step) override {
    watch(
        replica, [&] { return step; }, [&](Replica& watched) { inner_->update(watched, step); });
  }
  void serve(Replica& replica, const StepAt& step_at, std::uint64_t first,
             std::uint64_t end) override {
    for (std::uint64_t t = first; t < end; ++t)
      watch(
          replica, [&] { return step_at(t); },
          [&](Replica& watched) { inner_->serve(watched, step_at, t, t + 1); });
  }

  void begin(Replica& replica) override { inner_->begin(replica); }
  void slice_ready(Slice part) override { inner_->slice_ready(part); }
  void read_model(Replica& replica, Values model) override { inner_->read_model(replica, model); }
  std::vector<Flow> flows(const Step& step, int rank, std::size_t count) const override {
    return inner_->flows(step, rank, count);
  }
  std::vector<Flow> flows_of_memory(std::size_t which, const Step& step, int rank,
                                    std::size_t count) const override {
    return inner_->flows_of_memory(which, step, rank, count);
  }
  std::uint64_t bytes_sent(const Step& step, int rank, std::size_t count) const override {
    return inner_->bytes_sent(step, rank, count);
  }
  std::vector<Kept> memories() override { return inner_->memories(); }
  std::string state() const override { return inner_->state(); }
  void restore(const std::string& state) override {
    inner_->restore(state);
    last_.clear();
  }

 private:
  // `step` is asked for again after `act`, which may ask for steps itself.
  template <class StepNow, class Act>
  void watch(Replica& replica, StepNow&& step, Act&& act) {
    const Values weights = replica.weights();
    if (weights.is_hollow())
      throw UsageError(
          "the audit needs numbers, and this replica has only sizes: run it with "
          "numerics=on, or without the audit");
    std::vector<Slice> parts;
    for (const Flow& flow : inner_->flows(step(), crew_.rank.rank(), weights.count()))
      parts.push_back(flow.part);

    std::vector<Account> all(parts.size() * crew_.ranks());
    const std::span<Account> mine(all.data() + parts.size() * crew_.rank.rank(), parts.size());
    for (std::size_t p = 0; p < parts.size(); ++p) {
      mine[p].before = project(weights, parts[p], seed_);
      if (crew_.works()) mine[p].gradient = project(replica.gradients(), parts[p], seed_);
    }
    WatchedReplica watched(replica, parts, mine, seed_);
    act(watched);
    for (std::size_t p = 0; p < parts.size(); ++p) {
      if (mine[p].steps == 0) mine[p].stepped = mine[p].before;
      mine[p].after = project(weights, parts[p], seed_);
    }

    all_gather(crew_.rank.peers, kExchange, {all.data(), all.size() * kDoubles, Type::fp64});
    check(step(), parts, all, weights.count());
    last_parts_ = std::move(parts);
    last_ = std::move(all);
  }

  // Every rank checks every rank, so that all come to the same verdict.
  void check(const Step& step, const std::vector<Slice>& parts, const std::vector<Account>& all,
             std::size_t count) const {
    const auto place = [&](std::size_t r, std::size_t p) {
      return fmt::format("audit: step {}, rank {}, parameters {}..{}: ", step.number, r,
                         parts[p].begin, parts[p].end() - 1);
    };
    for (std::size_t at = 0; at < all.size(); ++at)  // first, or those it spreads to get the blame
      if (!std::isfinite(all[at].gradient.square))
        throw AuditError(place(at / parts.size(), at % parts.size()) +
                         "its own gradient holds a NaN or an infinity");
    const bool goes_on = !last_.empty() && last_parts_ == parts;
    for (int r = 0; r < crew_.ranks(); ++r) {
      const std::vector<Flow> flows = inner_->flows(step, r, count);
      for (std::size_t p = 0; p < parts.size(); ++p) {
        const std::size_t at = r * parts.size() + p;
        const auto where = [&] { return place(r, p); };
        const Account& account = all[at];
        if (goes_on && account.before != last_[at].after)
          throw AuditError(where() + "the weights changed between two updates");
        const double due = flows[p].gradients.empty() ? 0 : static_cast<double>(parts[p].count);
        if (account.steps != due)
          throw AuditError(where() + fmt::format("the optimiser stepped {} parameters where the "
                                                 "strategy says {}",
                                                 account.steps, due));
        const auto of = [&](Projection Account::*what) {
          return [&, what](std::size_t j) { return all[j * parts.size() + p].*what; };
        };
        if (due > 0)
          compare(where, "gradient its optimiser stepped with", flows[p].gradients,
                  of(&Account::gradient), account.stepped_with, parts[p].count);
        compare(where, "weights it ended with", flows[p].weights, of(&Account::stepped),
                account.after, parts[p].count);
      }
    }
  }

  template <class Where, class Of>
  static void compare(Where&& where, std::string_view what, const std::vector<double>& factors,
                      Of&& of, const Projection& found, std::size_t count) {
    std::vector<Term> mix;
    for (std::size_t j = 0; j < factors.size(); ++j)
      if (factors[j] != 0) mix.push_back({factors[j], of(j)});
    if (const auto wrong = mismatch(found, mix, count))
      throw AuditError(where() + fmt::format("the {} {}", what, *wrong));
  }

  const std::unique_ptr<Strategy> inner_;
  const std::uint64_t seed_;
  std::vector<Slice> last_parts_;
  std::vector<Account> last_;  // of the last step, by rank and part
};

}  // namespace

std::unique_ptr<Strategy> audited(std::unique_ptr<Strategy> strategy, const Crew& crew) {
  return std::make_unique<Audited>(std::move(strategy), crew);
}

}  // namespace lockstep
