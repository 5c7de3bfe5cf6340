#include "train/snapshots.h"

#include <algorithm>

#include "collectives/all_reduce.h"
#include "train/gather.h"

namespace lockstep {
namespace {

constexpr Tag kTold{Purpose::evaluation, 0x10b}, kWeights{Purpose::evaluation, 0x10c};

}  // namespace

bool Snapshots::sets_pace() const {
  const std::vector<int> dead = session_.rank().peers.dead_peers();
  std::vector<int> living;
  for (int r = 0; r < session_.crew().workers; ++r)
    if (!std::ranges::binary_search(dead, r)) living.push_back(r);
  return session_.pacemaker(living) == session_.rank().rank();
}

int Snapshots::pacemaker() const {
  const Transport& workers = session_.workers();
  std::vector<int> ranks;
  for (int r = 0; r < workers.size(); ++r) ranks.push_back(workers.job_rank(r));
  return static_cast<int>(std::ranges::find(ranks, session_.pacemaker(ranks)) - ranks.begin());
}

void Snapshots::stepped(std::uint64_t taken) {
  if (session_.experiment.hollow()) return;
  if (!sets_pace()) return take_told();
  // The last of all is scored when everybody is done.
  if (!session_.score_due(taken) || taken == session_.last_step()) return;
  const Kept& kept = kept_[taken] = counted(taken, true);
  tell({taken, kept.elsewhere ? 1u : 0u});
}

void Snapshots::tell(Told told) {
  Transport& peers = session_.rank().peers;
  for (int r = 0; r < session_.crew().workers; ++r) {
    if (r == session_.rank().rank()) continue;
    try {
      peers.wait(peers.send(r, kTold, bytes_of(told)));
    } catch (const TransportError&) {  // it is gone, and nothing is to be had from it
    }
  }
}

void Snapshots::take_told() {
  Transport& peers = session_.rank().peers;
  while (const auto told = peers.probe(kAnyRank, kTold)) {
    Told it{};
    peers.wait(peers.recv(told->from, kTold, bytes_of(it)));
    kept_[it.steps] = counted(it.steps, false);
    kept_[it.steps].elsewhere = it.elsewhere != 0;
  }
}

Snapshots::Kept Snapshots::copied(std::uint64_t steps, bool with_model) {
  Strategy& strategy = session_.strategy();
  const std::span<const float> weights = floats(session_.replica().weights());
  Kept kept;
  kept.steps = steps;
  kept.training_s = session_.clock().training_s();
  kept.own.assign(weights.begin(), weights.end());
  kept.statistics = session_.learner().statistics();
  kept.mass = strategy.mass();
  kept.samples = session_.log().own_samples();
  strategy.prove_own(Values(kept.own.data(), kept.own.size(), Type::fp32), kept.samples);
  if (with_model) {
    kept.model.resize(weights.size());
    kept.elsewhere = strategy.fetch_model(Values(kept.model.data(), kept.model.size(), Type::fp32));
    if (!kept.elsewhere) kept.model.clear();
  }
  return kept;
}

Snapshots::Kept Snapshots::counted(std::uint64_t steps, bool with_model) {
  Kept kept = copied(steps, with_model);
  const Traffic moved = session_.moved().exchanged();
  // What servers send is what workers receive of them; they have no steps at which to be asked.
  const bool servers = session_.crew().servers > 0;
  const std::vector<double> totals =
      session_.log().totals(moved.bytes_sent + (servers ? moved.bytes_received : 0));
  kept.loss_sum = totals[0];
  kept.loss_samples = totals[1];
  kept.bytes = totals[2];
  return kept;
}

Model Snapshots::mean_of(const Kept& kept, bool central) {
  const bool has = !central || !kept.model.empty();
  double mass = !has ? 0 : central ? 1 : kept.mass;
  std::vector<double> total{mass};
  sum_over_ranks(session_.workers(), total);
  if (total[0] == 0) {  // those that had taken part are gone
    mass = 1;
    total[0] = session_.workers().size();
  }
  Model model{central && has ? kept.model : kept.own, kept.statistics};
  // The mean as a sum of shares: a share of one keeps the bits.
  scale(Values(model.weights.data(), model.weights.size(), Type::fp32), mass / total[0]);
  auto_all_reduce(session_.workers(), kWeights,
                  Values(model.weights.data(), model.weights.size(), Type::fp32));
  const bool audit = session_.experiment.config.audit;
  if (audit)
    prove_mean(session_.workers(), "weights", central && has ? kept.model : kept.own, mass,
               model.weights);
  if (!model.statistics.empty())
    model.statistics = mean_over(session_.workers(), model.statistics,
                                 kept.mass * static_cast<double>(kept.samples), audit);
  return model;
}

void Snapshots::score(const Kept& kept) {
  std::vector<double> sums{kept.loss_sum, kept.loss_samples, kept.bytes,
                           kept.model.empty() ? 0.0 : 1.0, kept.elsewhere ? 1.0 : 0.0};
  sum_over_ranks(session_.workers(), sums);
  const bool central = sums[3] > 0;
  // It is gone with the worker that had it, and the mean of the workers is another model.
  if (!central && sums[4] > 0) return;
  std::vector<std::vector<double>> times = all_rows(session_.workers(), {kept.training_s});
  const bool ends = kept.steps == session_.last_step();
  // The last is over when all are; until then who sets the pace has the time.
  const double training_s = ends ? (*std::ranges::max_element(times))[0] : times[pacemaker()][0];
  Score score =
      ProgressLog::score_from(sums, kept.steps, session_.ends_epoch(kept.steps), training_s);
  evaluate(session_.workers(), session_.learner(), session_.experiment, mean_of(kept, central),
           kept.own, kept.mass > 0, score);
  session_.keep(score);
}

void Snapshots::score_kept() {
  if (session_.experiment.hollow()) return;
  take_told();
  nlohmann::json steps = nlohmann::json::array();
  for (const auto& [at, kept] : kept_) steps.push_back(at);
  const std::string due = text_of(session_.workers(), pacemaker(), steps.dump());
  // What was kept at the last step, before anybody knew that it was, is scored when all are done.
  const std::uint64_t last = session_.last_step();
  for (const std::uint64_t at : nlohmann::json::parse(due)) {
    if (at == last) continue;
    const auto found = kept_.find(at);
    // Who was not told in time had taken all its steps by then.
    Kept kept = found != kept_.end() ? std::move(found->second) : counted(at, false);
    score(kept);
  }
  std::erase_if(kept_, [&](const auto& kept) { return kept.first != last; });
}

void Snapshots::score_last() {
  if (session_.experiment.hollow()) return;
  Kept last = counted(session_.last_step(), session_.workers().rank() == 0);
  if (const auto found = kept_.find(last.steps); found != kept_.end()) {
    last.loss_sum += found->second.loss_sum;
    last.loss_samples += found->second.loss_samples;
  }
  score(last);
}

Model Snapshots::last_model() {
  Kept kept = copied(session_.last_step(), session_.workers().rank() == 0);
  std::vector<double> central{kept.model.empty() ? 0.0 : 1.0};
  sum_over_ranks(session_.workers(), central);
  return mean_of(kept, central[0] > 0);
}

}  // namespace lockstep
