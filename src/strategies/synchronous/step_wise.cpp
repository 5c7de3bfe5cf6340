// Step-wise averaging: half of a ring all-reduce of the weights. Every worker steps with its own
// gradient; then a sum of weights travels from worker to worker, each adds its own, goes on with
// the average so far and hands the sum on. Nobody waits for a second pass that would bring everyone
// the whole mean.
//
// The worker at position k of the order ends with the mean over positions 0..k. `form=token`: one
// sum of the whole vector, as an unchunked ring. `form=chunked`: m sums of a chunk each, chunk c in
// the order shifted by c ranks, as a reduce-scatter. The global mean is not preserved: a worker
// counts for the more the earlier it comes, hence `start`, which changes the order from step to
// step. With `full_pass=K` every K-th step goes round twice; K = 1 is ring all-reduce.
//
// A rank sends all chunks but the one it comes last for: N(m-1)/m, half of a ring; as token N, the
// last 0. Momentum stays each worker's own.
#include <algorithm>
#include <limits>
#include <numeric>

#include "collectives/messages.h"
#include "collectives/scratch.h"
#include "strategies/average.h"
#include "strategies/registry.h"

namespace lockstep {
namespace {

enum class PassStart { fixed, forward, backward, zigzag, random };

class StepWise final : public Strategy, public Statement {
 public:
  StepWise(const Crew& crew, bool chunked, PassStart start, std::uint64_t full_pass)
      : Strategy(crew, {.statement = this}),
        chunked_(chunked),
        start_(start),
        full_pass_(full_pass) {}

  void update(Replica& replica, const Step& step) override {
    replica.apply_gradients(step.number);
    const Values weights = replica.weights();
    const Values chunk_0 = weights.part(chunk(weights.count(), crew_.workers, 0));
    const std::size_t token = std::numeric_limits<std::size_t>::max();  // goes on when all is there
    Messages messages(crew_.rank.peers, tag_of(Purpose::weights, step),
                      chunked_ ? segment_bytes_if_busy(chunk_0) : token);
    const auto visits = visits_of(step, crew_.rank.rank(), weights.count());
    std::vector<Scratch> sums;
    std::vector<Messages::Step> through;
    for (const Visit& visit : visits)
      through.push_back(first_pass(messages, sums, visit, weights, is_full(step)));
    if (is_full(step)) second_pass(messages, visits, through, weights);
    messages.run();
  }

  std::vector<Flow> flows(const Step& step, int rank, std::size_t count) const override {
    const std::vector<int> order = order_at(step.number);
    const std::vector<double> shares = shares_of(step.samples);
    std::vector<Flow> flows;
    for (const Visit& visit : visits_of(step, rank, count)) {
      std::vector<double> weights(crew_.workers);
      for (int k = 0; k <= visit.position; ++k) {
        const int worker = (order[k] + visit.sum) % crew_.workers;
        weights[worker] = shares[worker] / visit.counted();
      }
      if (visit.before == 0) weights = only(rank, crew_.workers);
      if (is_full(step)) weights = mean_factors(step.samples, crew_.workers);
      flows.push_back({visit.part, only(rank, crew_.workers), std::move(weights)});
    }
    std::sort(flows.begin(), flows.end(),
              [](const Flow& a, const Flow& b) { return a.part.begin < b.part.begin; });
    return flows;
  }

  // Whoever goes on with averages is part of the mean, with samples or without.
  double mass() const override { return 1; }

  std::uint64_t bytes_sent(const Step& step, int rank, std::size_t count) const override {
    std::size_t sent = 0;
    for (const Visit& visit : visits_of(step, rank, count)) {
      if (!visit.last(crew_.workers)) sent += visit.part.count;
      if (is_full(step) && passes_total_on(visit)) sent += visit.part.count;
    }
    return sent * size_of(Type::fp32);
  }

 private:
  // A sum comes by at one worker.
  struct Visit {
    int sum;  // which, from 0
    Slice part;
    int position;  // of the worker in this sum's order
    int from, to;  // the workers before and after, round the ring
    // What those before count for in the sum, and what this one does.
    double before, share;

    double counted() const { return before + share; }
    bool last(int workers) const { return position == workers - 1; }
  };

  bool is_full(const Step& step) const {
    return full_pass_ != 0 && (step.number + 1) % full_pass_ == 0;
  }
  // In the second pass the total goes from the last on to the last but one.
  bool passes_total_on(const Visit& visit) const {
    return crew_.workers > 1 && visit.position != crew_.workers - 2;
  }

  // The workers in the order that chunk 0 visits them.
  std::vector<int> order_at(std::uint64_t step) const {
    const int m = crew_.workers, turn = static_cast<int>(step % m);
    std::vector<int> order(m);
    std::iota(order.begin(), order.end(), 0);
    if (start_ == PassStart::forward) std::rotate(order.begin(), order.begin() + turn, order.end());
    if (start_ == PassStart::backward) std::rotate(order.begin(), order.end() - turn, order.end());
    if (start_ == PassStart::zigzag && step % 2 == 1) std::reverse(order.begin(), order.end());
    if (start_ == PassStart::random) {  // the same on all ranks
      Rng rng(crew_.rank.seed, 0, purpose_of("step-wise order") + step);
      for (int k = m - 1; k > 0; --k) std::swap(order[k], order[rng.below(k + 1)]);
    }
    return order;
  }

  // In the order of positions, in which both ends of a line name their messages.
  std::vector<Visit> visits_of(const Step& step, int rank, std::size_t count) const {
    const int m = crew_.workers, sums = chunked_ ? m : 1;
    const std::vector<int> order = order_at(step.number);
    const std::vector<double> shares = shares_of(step.samples);
    std::vector<Visit> visits;
    for (int k = 0; k < m; ++k) {
      const int c = (rank - order[k] + m) % m;
      if (c >= sums) continue;
      const auto at = [&](int position) { return (order[(position + m) % m] + c) % m; };
      Visit visit{c, chunk(count, sums, c), k, at(k - 1), at(k + 1), 0, shares[rank]};
      for (int j = 0; j < k; ++j) visit.before += shares[at(j)];
      visits.push_back(visit);
    }
    return visits;
  }

  // S += share·w, in place of w; S goes on, and then w = S / what is counted in it. Returns the
  // last step on w.
  Messages::Step first_pass(Messages& messages, std::vector<Scratch>& sums, const Visit& visit,
                            Values all, bool full) const {
    const Values w = all.part(visit.part);
    const bool last = visit.last(crew_.workers);
    if (visit.before == 0) return start(messages, sums, visit, w);
    if (visit.share != 0 && visit.share != 1) scale(w, visit.share);
    const auto sum = visit.share == 0 ? messages.take(visit.from, w) : messages.fold(visit.from, w);
    const auto sent = last ? sum : messages.send(visit.to, w, sum);
    if (last || !full)
      messages.then(sent, [w, factor = 1 / visit.counted()](Slice segment) {
        scale(w.part(segment), factor);
      });
    return sent;
  }

  // Nothing that counts came before: w stays as it is, and S = share·w.
  Messages::Step start(Messages& messages, std::vector<Scratch>& sums, const Visit& visit,
                       Values w) const {
    if (visit.position == 0 && visit.share == 1)
      return crew_.workers == 1 ? Messages::kStart : messages.send(visit.to, w);
    const Values sum = sums.emplace_back(w, w.count()).values();
    const auto begin = [=, share = visit.share](Slice segment) {
      copy(sum.part(segment).bytes(), w.part(segment).bytes());
      scale(sum.part(segment), share);
    };
    auto came = Messages::kStart;
    if (visit.position > 0)
      messages.then(came = messages.take(visit.from, sum), begin);
    else
      begin({0, w.count()});
    return visit.last(crew_.workers) ? came : messages.send(visit.to, sum, came);
  }

  // The total goes from the last worker to the first and on.
  void second_pass(Messages& messages, const std::vector<Visit>& visits,
                   const std::vector<Messages::Step>& through, Values all) const {
    for (std::size_t i = 0; i < visits.size(); ++i)
      if (visits[i].last(crew_.workers) && crew_.workers > 1)
        messages.send(visits[i].to, all.part(visits[i].part), through[i]);
    for (std::size_t i = 0; i < visits.size(); ++i) {
      const Visit& visit = visits[i];
      if (visit.last(crew_.workers)) continue;
      const Values w = all.part(visit.part);
      const auto total = messages.take(visit.from, w, through[i]);
      if (passes_total_on(visit)) messages.send(visit.to, w, total);
    }
  }

  const bool chunked_;
  const PassStart start_;
  const std::uint64_t full_pass_;
};

}  // namespace

StrategyMaker step_wise(const Options& options) {
  constexpr std::string_view forms[] = {"token", "chunked"};
  constexpr std::string_view starts[] = {"fixed", "forward", "backward", "zigzag", "random"};
  const bool chunked = options.choice("form", forms) == 1;
  const auto start = static_cast<PassStart>(options.choice("start", starts));
  const std::int64_t full = options.integer("full_pass");
  if (full < 0)
    throw UsageError(fmt::format("full_pass of 'step-wise' is {}: at least 0 (never)", full));
  return {[=](const Crew& crew) { return std::make_unique<StepWise>(crew, chunked, start, full); }};
}

}  // namespace lockstep
