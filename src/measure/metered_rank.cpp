#include "measure/metered_rank.h"

namespace lockstep {
namespace {

Traffic of_strategy(const Ledger& ledger) {
  Traffic moved = total_of(ledger, Purpose::gradients);
  return moved += total_of(ledger, Purpose::weights);
}

}  // namespace

MeteredRank::MeteredRank(Rank& rank)
    : ledger_(rank.size()),
      metered_(rank.peers, ledger_),
      view_(rank, {.peers = &metered_}, [&](Background& inner, int) {
        auto jobs = std::make_unique<MeteredBackground>(inner, rank.size());
        lanes_.push_back(jobs.get());
        return jobs;
      }) {}

Ledger MeteredRank::all() const {
  Ledger all = ledger_;
  for (const MeteredBackground* lane : lanes_) all += lane->ledger();
  return all;
}

Traffic MeteredRank::exchanged() const {
  Traffic moved = of_strategy(all());
  if (moved.messages_sent + moved.messages_received == 0)
    moved.bytes_sent = moved.bytes_received = moved.bytes_sent + moved.bytes_received;
  return moved += exchanged_before_;
}

Traffic MeteredRank::other() const {
  const Ledger ledger = all();
  Traffic rest = total(ledger);
  rest -= of_strategy(ledger);
  return rest += other_before_;
}

void MeteredRank::restore(const Traffic& exchanged, const Traffic& other) {
  exchanged_before_ = exchanged;
  other_before_ = other;
}

}  // namespace lockstep
