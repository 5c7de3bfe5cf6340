#include "strategies/audit/audit.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "collectives/all_gather.h"
#include "strategies/audit/watched_replica.h"
#include "strategies/average.h"
#include "transport/channels.h"
#include "transport/group.h"

namespace lockstep {
namespace {

// What one rank did with one part in one step. Doubles only: it is gathered as such.
struct Account {
  Projection before, gradient, stepped_with, stepped, after;
  double steps = 0;  // elements that the optimiser stepped
};
static_assert(sizeof(Account) == (5 * (kProjections + 1) + 1) * sizeof(double));

// What became of one part of one memory in one step.
struct Change {
  Projection before, after;
};
static_assert(sizeof(Change) == 2 * (kProjections + 1) * sizeof(double));

// What one worker read as the model, and what it had then: its weights, and what the strategy says
// of its memories.
struct ModelAccount {
  Projection weights, memories, model;
};
static_assert(sizeof(ModelAccount) == 3 * (kProjections + 1) * sizeof(double));

// Collective: row `rank` of `all`, which has one for each rank, from each to everybody.
template <class T>
void gather_rows(Transport& peers, std::vector<T>& all) {
  if (!all.empty())
    all_gather(peers, channels::kAudit,
               {all.data(), all.size() * sizeof(T) / sizeof(double), Type::fp64});
}

// The accounts of all ranks in one step: by rank, part and memory.
struct Books {
  std::vector<Slice> parts;
  std::size_t memories;
  std::vector<Account> accounts;
  std::vector<Change> changes;

  Books(std::vector<Slice> its_parts, std::size_t its_memories, int ranks)
      : parts(std::move(its_parts)),
        memories(its_memories),
        accounts(parts.size() * ranks),
        changes(parts.size() * memories * ranks) {}

  const Account& account(int rank, std::size_t part) const {
    return accounts[rank * parts.size() + part];
  }
  std::span<Account> accounts_of(int rank) {
    return {accounts.data() + rank * parts.size(), parts.size()};
  }
  const Change& change(int rank, std::size_t part, std::size_t memory) const {
    return changes[(rank * parts.size() + part) * memories + memory];
  }

  // What a memory has no number for counts as zero.
  void note_memories(int rank, const std::vector<Kept>& kept, Projection Change::*when,
                     const MixAudit& proof) {
    for (std::size_t p = 0; p < parts.size(); ++p)
      for (std::size_t k = 0; k < memories; ++k)
        changes[(rank * parts.size() + p) * memories + k].*when =
            proof.of(kept[k].values, common(parts[p], {kept[k].first, kept[k].values.count()}),
                     kept[k].first);
  }

  // What these are of part p, as terms of a sum.
  void add_memories(std::span<const OfMemory> memories_of, std::size_t p,
                    std::vector<Term>& sum) const {
    for (const OfMemory& of : memories_of) {
      sum.push_back({of.before, change(of.rank, p, of.which).before});
      sum.push_back({of.after, change(of.rank, p, of.which).after});
    }
  }

  // Collective: everybody's to everybody.
  void exchange(Transport& peers) {
    gather_rows(peers, accounts);
    gather_rows(peers, changes);
  }
};

// Hands on what every strategy has, and has the parts of what it wraps until a constructor says
// otherwise.
class Wrapped : public Strategy {
 public:
  Wrapped(std::unique_ptr<Strategy> inner, const Crew& crew)
      : Strategy(crew, inner->parts()), inner_(std::move(inner)), proof_(crew.rank) {}

  void begin(Replica& replica) override { inner_->begin(replica); }
  void read_model(Replica& replica, Values model) override { inner_->read_model(replica, model); }
  double mass() const override { return inner_->mass(); }
  std::vector<Kept> memories() override { return inner_->memories(); }
  std::string state() const override { return inner_->state(); }
  void restore(const std::string& state) override { inner_->restore(state); }

 protected:
  void count_samples(const Step& step, bool trains = true) {
    if (step.number == 0) samples_ = 0;
    if (samples_ && trains) *samples_ += step.samples[crew_.rank.rank()];
  }
  void prove_samples(std::uint64_t samples) const {
    if (samples_ && samples != *samples_)
      proof_.fail("it is to count by {} samples, and has had {}", samples, *samples_);
  }

  const std::unique_ptr<Strategy> inner_;
  const MixAudit proof_;

 private:
  // Of this worker in all; none where the run was resumed, and what was before is not known.
  std::optional<std::uint64_t> samples_;
};

// Of workers that go together.
class Audited final : public Wrapped, public Fed, public Serving, public Audit {
 public:
  Audited(std::unique_ptr<Strategy> inner, const Crew& crew)
      : Wrapped(std::move(inner), crew),
        statement_(*parts_.statement),
        fed_(parts_.fed),
        serving_(parts_.serving) {
    if (fed_) parts_.fed = this;
    if (serving_) parts_.serving = this;
    parts_.audit = this;
  }

  // What was computed is noted before the strategy may change it.
  void expect(Replica& replica, const Step& step) override {
    open(replica, step);
    fed_->expect(replica, step);
  }
  void ready(Slice part) override {
    watch_->note_gradient(part, crew_.rank.rank(), proof_);
    fed_->ready(part);
  }
  bool begins_early() const override { return fed_->begins_early(); }
  void update(Replica& replica, const Step& step) override {
    watch(
        replica, [&] { return step; }, [&](Replica& watched) { inner_->update(watched, step); });
  }
  void serve(Replica& replica, const StepAt& step_at, std::uint64_t first,
             std::uint64_t end) override {
    for (std::uint64_t t = first; t < end; ++t)
      watch(
          replica, [&] { return step_at(t); },
          [&](Replica& watched) { serving_->serve(watched, step_at, t, t + 1); });
  }
  void read_model(Replica& replica, Values model) override {
    inner_->read_model(replica, model);
    check_model(replica, model);
  }
  void prove_own(Values own, std::uint64_t samples) const override {
    const int me = crew_.rank.rank();
    for (std::size_t p = 0; last_ && p < last_->parts.size(); ++p)
      if (proof_.of(own, last_->parts[p]) != last_->account(me, p).after)
        proof_.fail(
            "the weights that are to be part of the model are not those that its last step left");
    prove_samples(samples);
  }

 private:
  // A step that is being taken.
  struct Watch {
    Books books;
    Values gradients;
    bool trains;
    std::vector<Slice> noted = {};  // gradients that were told ready

    void note_gradient(Slice part, int rank, const MixAudit& proof) {
      const std::span<Account> mine = books.accounts_of(rank);
      for (std::size_t p = 0; p < mine.size(); ++p)
        mine[p].gradient += proof.of(gradients, common(books.parts[p], part));
      noted.push_back(part);
    }
    void note_other_gradients(int rank, const MixAudit& proof) {
      std::vector<Slice> told = std::exchange(noted, {});
      std::ranges::sort(told, {}, &Slice::begin);
      told.push_back({gradients.count(), 0});
      for (std::size_t at = 0; const Slice next : told) {
        if (next.begin > at) note_gradient({at, next.begin - at}, rank, proof);
        at = next.end();
      }
    }
  };

  // Notes what there is before the step.
  void open(Replica& replica, const Step& step) {
    const Values weights = replica.weights();
    if (step.number == 0) had_.emplace(crew_.workers);
    std::vector<Slice> parts;
    for (const Flow& flow : statement_.flows(step, crew_.rank.rank(), weights.count()))
      parts.push_back(flow.part);
    Books now{parts, inner_->memories().size(), crew_.ranks()};
    const std::span<Account> mine = now.accounts_of(crew_.rank.rank());
    for (std::size_t p = 0; p < parts.size(); ++p) mine[p].before = proof_.of(weights, parts[p]);
    now.note_memories(crew_.rank.rank(), inner_->memories(), &Change::before, proof_);
    const bool trains = crew_.works() && lockstep::trains(*inner_, step);
    watch_.emplace(Watch{std::move(now), replica.gradients(), trains});
  }

  // `step` is asked for again after `act`, which may ask for steps itself.
  template <class StepNow, class Act>
  void watch(Replica& replica, StepNow&& step, Act&& act) {
    if (!watch_) open(replica, step());
    if (watch_->trains) watch_->note_other_gradients(crew_.rank.rank(), proof_);
    const bool trains = watch_->trains;
    Books now = std::move(watch_->books);
    watch_.reset();
    const Values weights = replica.weights();
    const std::vector<Slice>& parts = now.parts;
    const std::span<Account> mine = now.accounts_of(crew_.rank.rank());
    WatchedReplica watched(
        replica,
        [&](Slice part, double share) { note_gradient(replica, part, share, parts, mine); },
        [&](Slice part, double) { note_step(replica, part, parts, mine); });
    act(watched);
    for (std::size_t p = 0; p < parts.size(); ++p) {
      if (mine[p].steps == 0) mine[p].stepped = mine[p].before;
      mine[p].after = proof_.of(weights, parts[p]);
    }
    now.note_memories(crew_.rank.rank(), inner_->memories(), &Change::after, proof_);
    now.exchange(crew_.rank.peers);
    check(step(), now, weights.count());
    check_counts(step(), weights.count());
    last_ = std::move(now);
    count_samples(step(), trains);
  }

  // What the optimiser steps with, and where it gets.
  void note_gradient(Replica& replica, Slice part, double share, std::span<const Slice> parts,
                     std::span<Account> accounts) const {
    for (std::size_t p = 0; p < parts.size(); ++p) {
      const Term gradient[] = {{share, proof_.of(replica.gradients(), common(parts[p], part))}};
      accounts[p].stepped_with += sum_of(gradient);
    }
  }
  void note_step(Replica& replica, Slice part, std::span<const Slice> parts,
                 std::span<Account> accounts) const {
    for (std::size_t p = 0; p < parts.size(); ++p) {
      const Slice here = common(parts[p], part);
      accounts[p].stepped += proof_.of(replica.weights(), here);
      accounts[p].steps += static_cast<double>(here.count);
    }
  }

  // Every rank checks every rank, so that all come to the same verdict.
  void check(const Step& step, const Books& now, std::size_t count) {
    for (int r = 0; r < crew_.ranks(); ++r)  // first, or those it spreads to get the blame
      for (std::size_t p = 0; p < now.parts.size(); ++p)
        if (!std::isfinite(now.account(r, p).gradient.square))
          throw AuditError(place(step, now, r, p) + "its own gradient holds a NaN or an infinity");
    const std::vector<Kept> memories = inner_->memories();
    for (int r = 0; r < crew_.ranks(); ++r) {
      const std::vector<Flow> flows = statement_.flows(step, r, count);
      std::vector<std::vector<Flow>> of_memories;
      for (std::size_t k = 0; k < now.memories; ++k) {
        of_memories.push_back(statement_.flows_of_memory(k, step, r, count));
        if (of_memories[k].size() != now.parts.size())
          throw InternalError(
              fmt::format("audit: the strategy does not say what becomes of its memory '{}'",
                          memories[k].name));
      }
      for (std::size_t p = 0; p < now.parts.size(); ++p) {
        const auto where = [&] { return place(step, now, r, p); };
        check_continuity(where, now, r, p);
        check_optimiser(where, now, flows[p], r, p);
        check_result(where, now, "weights it ended with", flows[p], {}, r, p,
                     now.account(r, p).after);
        for (std::size_t k = 0; k < now.memories; ++k)
          check_result(where, now, fmt::format("memory '{}' it ended with", memories[k].name),
                       of_memories[k][p], of_memories[k][p].gradients, r, p,
                       now.change(r, p, k).after);
      }
    }
  }

  // An average counts every sample once: those of all steps since the last average, which the audit
  // adds up for itself.
  void check_counts(const Step& step, std::size_t count) {
    if (!statement_.averages_by_samples()) return;
    for (int w = 0; had_ && w < crew_.workers; ++w)
      (*had_)[w] += static_cast<double>(step.samples[w]);
    const std::vector<Flow> flows = statement_.flows(step, 0, count);
    for (int r = 1; r < crew_.workers; ++r)
      for (std::size_t p = 0; p < flows.size(); ++p)
        if (statement_.flows(step, r, count)[p].weights != flows[p].weights) return;
    for (const Flow& flow : flows)
      check_counts(fmt::format("audit: step {}", step.number), "average of weights", flow);
    had_.emplace(crew_.workers);
  }
  void check_counts(const std::string& where, std::string_view what, const Flow& flow) const {
    const auto sum = [](const std::vector<double>& all) {
      return std::accumulate(all.begin(), all.end(), 0.0);
    };
    for (int w = 0; had_ && sum(*had_) > 0 && w < crew_.workers; ++w)
      if (const double due = sum(flow.weights) * (*had_)[w] / sum(*had_);
          !(std::abs(flow.weights[w] - due) <= 1e-9))
        throw AuditError(fmt::format(
            "{}: rank {} counts for {} in the {}, where {} of {} samples since the last "
            "average make {}",
            where, w, flow.weights[w], what, (*had_)[w], sum(*had_), due));
  }

  Flow flow_of_model(int rank, std::size_t count) const {
    Flow flow = statement_.flow_of_model(rank, count);
    if (!flow.weights.empty()) return flow;
    return flow_of_mean(crew_, count, std::vector<double>(crew_.workers, 1));
  }

  // Collective over the workers.
  void check_model(Replica& replica, Values model) {
    const int me = crew_.rank.rank();
    std::vector<ModelAccount> accounts(crew_.workers);
    accounts[me].weights = proof_.of(replica.weights());
    accounts[me].model = proof_.of(model);
    std::vector<Term> of_memories;
    const Flow mine = flow_of_model(me, model.count());
    const std::vector<Kept> memories = inner_->memories();
    for (std::size_t k = 0; k < mine.memory.size(); ++k)
      of_memories.push_back({mine.memory[k], proof_.of(memories[k].values)});
    accounts[me].memories = sum_of(of_memories);
    std::vector<int> workers(crew_.workers);
    std::iota(workers.begin(), workers.end(), 0);
    Group group(crew_.rank.peers, workers);
    gather_rows(group, accounts);
    for (int r = 0; r < crew_.workers; ++r) {
      const Flow flow = flow_of_model(r, model.count());
      if (statement_.averages_by_samples()) check_counts("audit", "model", flow);
      std::vector<Term> mix{{1, accounts[r].memories}};
      for (int j = 0; j < crew_.workers; ++j) mix.push_back({flow.weights[j], accounts[j].weights});
      compare([&] { return fmt::format("audit: rank {}: ", r); }, "model to score and to save", mix,
              accounts[r].model, model.count());
      // Each answers a part of the test set with it.
      if (accounts[r].model != accounts[0].model)
        throw AuditError(fmt::format("audit: rank {}: its model is not that of rank 0", r));
    }
  }

  static std::string place(const Step& step, const Books& books, int rank, std::size_t p) {
    return fmt::format("audit: step {}, rank {}, parameters {}..{}: ", step.number, rank,
                       books.parts[p].begin, books.parts[p].end() - 1);
  }

  template <class Where>
  void check_continuity(Where&& where, const Books& now, int r, std::size_t p) const {
    if (!last_ || last_->parts != now.parts) return;
    if (now.account(r, p).before != last_->account(r, p).after)
      throw AuditError(where() + "the weights changed between two updates");
    for (std::size_t k = 0; k < now.memories; ++k)
      if (now.change(r, p, k).before != last_->change(r, p, k).after)
        throw AuditError(where() + "a memory of the strategy changed between two updates");
  }

  template <class Where>
  void check_optimiser(Where&& where, const Books& now, const Flow& flow, int r,
                       std::size_t p) const {
    const Account& account = now.account(r, p);
    const double due = flow.gradients.empty() ? 0 : static_cast<double>(now.parts[p].count);
    if (account.steps != due)
      throw AuditError(where() +
                       fmt::format("the optimiser stepped {} parameters where the strategy says {}",
                                   account.steps, due));
    std::vector<Term> mix;
    for (std::size_t j = 0; j < flow.gradients.size(); ++j)
      mix.push_back({flow.gradients[j], now.account(static_cast<int>(j), p).gradient});
    now.add_memories(flow.memories_in_gradients, p, mix);
    if (due > 0)
      compare(where, "gradient its optimiser stepped with", mix, account.stepped_with,
              now.parts[p].count, flow.gradients_hold);
  }

  template <class Where>
  void check_result(Where&& where, const Books& now, std::string_view what, const Flow& flow,
                    std::span<const double> gradients, int r, std::size_t p,
                    const Projection& found) const {
    std::vector<Term> mix;
    for (std::size_t j = 0; j < gradients.size(); ++j)
      mix.push_back({gradients[j], now.account(static_cast<int>(j), p).gradient});
    for (int j = 0; j < crew_.ranks(); ++j) {
      mix.push_back({flow.weights[j], now.account(j, p).stepped});
      if (!flow.before.empty()) mix.push_back({flow.before[j], now.account(j, p).before});
    }
    for (std::size_t k = 0; k < flow.memory.size(); ++k)
      mix.push_back({flow.memory[k], now.change(r, p, k).before});
    now.add_memories(flow.memories_in_weights, p, mix);
    compare(where, what, mix, found, now.parts[p].count, flow.weights_hold);
  }

  template <class Where>
  static void compare(Where&& where, std::string_view what, std::span<const Term> mix,
                      const Projection& found, std::size_t count, const Holds& holds = {}) {
    if (holds.how == Holds::How::not_stated) return;
    constexpr double kRounding = 1e-5;  // of norms
    const double norm = std::sqrt(found.square), root = std::sqrt(static_cast<double>(count));
    if (const double due = holds.size * root; due > 0 && !(std::abs(norm / due - 1) <= kRounding))
      throw AuditError(where() + fmt::format("the norm of the {} is {:.9g} where the strategy "
                                             "promises {:.9g}",
                                             what, norm, due));
    if (holds.how == Holds::How::shrunk) {
      const double most =
          (holds.by * std::sqrt(sum_of(mix).square) + holds.plus * root) * (1 + kRounding);
      if (!(norm <= most + static_cast<double>(count) * FLT_MIN))
        throw AuditError(where() + fmt::format("the norm of the {} is {:.9g} where the strategy "
                                               "promises {:.9g} at most",
                                               what, norm, most));
      return;
    }
    const Holds loses = holds.how == Holds::How::within ? holds : Holds{};
    if (const auto wrong = mismatch(found, mix, count, loses.by, loses.plus * root))
      throw AuditError(where() + fmt::format("the {} {}", what, *wrong));
  }

  const Statement& statement_;
  Fed* const fed_;
  Serving* const serving_;
  std::optional<Watch> watch_;  // from expect() to update(), where it is fed
  std::optional<Books> last_;   // of the last step
  // Samples of each worker since the last average; none where that is not known.
  std::optional<std::vector<double>> had_;
};

// Of workers that go apart: follows the replica through every update and rest.
class AuditedApart final : public Wrapped, public Apart, public Fed, public Audit {
 public:
  AuditedApart(std::unique_ptr<Strategy> inner, const Crew& crew)
      : Wrapped(std::move(inner), crew),
        apart_(*parts_.apart),
        fed_(parts_.fed),
        book_(parts_.proofs->book()) {
    parts_.proofs->audit_exchanges(crew.rank);
    parts_.apart = this;
    if (fed_) parts_.fed = this;
    parts_.audit = this;
  }

  // An update that begins while backward runs is followed from here on.
  void expect(Replica& replica, const Step& step) override {
    fed_->expect(book_.open(replica), step);
  }
  void ready(Slice part) override { fed_->ready(part); }
  bool begins_early() const override { return fed_->begins_early(); }

  void update(Replica& replica, const Step& step) override {
    book_.follow(replica, step, apart_.steps_own_weights() && has_samples(step),
                 [&](Replica& watched) { inner_->update(watched, step); });
    count_samples(step);
  }
  double mass() const override {
    const double mass = inner_->mass();
    book_.counts_for(mass);
    return mass;
  }

  void go() override { apart_.go(); }
  void hand_over(Replica& replica, std::uint64_t taken) override {
    book_.follow(replica, [&](Replica& watched) { apart_.hand_over(watched, taken); });
    if (book_.steps() != 0) proof_.fail("its optimiser stepped when the run was over");
  }
  void rest(Replica& replica) override {
    book_.follow(replica, [&](Replica& watched) { apart_.rest(watched); });
    if (book_.steps() != 0) proof_.fail("its optimiser stepped while it came to rest");
  }
  bool fetch_model(Values model) override { return apart_.fetch_model(model); }

  void prove_own(Values own, std::uint64_t samples) const override {
    book_.check_unchanged(own);
    prove_samples(samples);
  }
  void prove_at_rest(Transport& workers) const override { book_.prove_masses(workers); }

 private:
  Apart& apart_;
  Fed* const fed_;
  WeightBook& book_;
};

}  // namespace

std::unique_ptr<Strategy> audited(std::unique_ptr<Strategy> strategy, const Crew& crew) {
  const StrategyParts& parts = strategy->parts();
  if (strategy->pace() == Pace::together) {
    if (!parts.statement)
      throw UsageError(
          "the audit holds a strategy to what it states of its steps, and this one states nothing: "
          "give it a Statement, or leave the audit out");
    return std::make_unique<Audited>(std::move(strategy), crew);
  }
  if (!parts.proofs)
    throw UsageError(
        "the audit follows numbers from exchange to exchange, and this strategy does not prove its "
        "exchanges: give it ExchangeProofs, or leave the audit out");
  if (parts.apart) return std::make_unique<AuditedApart>(std::move(strategy), crew);
  parts.proofs->audit_exchanges(crew.rank);
  return strategy;
}

}  // namespace lockstep
