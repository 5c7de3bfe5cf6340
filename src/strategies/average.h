// The mean over the workers, in which every sample counts once.
#pragma once

#include "strategies/statement.h"

namespace lockstep {

// Two in turn: a rank that is a step ahead is not mistaken. (A tag for each step would leave each
// transport a queue for each.)
inline Tag tag_of(Purpose purpose, const Step& step) {
  return {purpose, static_cast<std::uint32_t>(step.number % 2)};
}

// What each worker's numbers count for in a mean: its samples, over the workers' mean number of
// them. Exactly 1 where all have the same, so that nothing is scaled. Where nobody has any: 1 each.
std::vector<double> shares_of(std::span<const std::size_t> samples);

// The mean as factors of the numbers of all ranks: share / workers, and 0 for servers.
std::vector<double> mean_factors(std::span<const std::size_t> samples, int ranks);
// The factors of "what rank `who` has".
std::vector<double> only(int who, int ranks);

// By what such values are all-reduced among all ranks of the crew: never `auto`.
const AllReduceRow& collective_for(const Crew&, Values);
// Bytes that `rank` sends in an all-reduce of such values.
std::uint64_t average_bytes(const Crew&, int rank, Values);

// Writes the mean of the workers' weights to `model`, where worker w counts by shares[w] over the
// workers' mean of these. Collective over the workers: an all-reduce of a copy, under
// Purpose::evaluation.
void read_mean(const Crew&, Values weights, Values model, std::span<const double> shares);
// What Statement::flow_of_model() says of that.
Flow flow_of_mean(const Crew&, std::size_t count, std::vector<double> shares);

}  // namespace lockstep
