// A run that goes on from what a strategy keeps in checkpoints.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "training.h"

namespace lockstep::testing {

// What a new strategy goes on with in place of `old`.
inline std::unique_ptr<Strategy> resumed(const std::string& spec, const Crew& crew,
                                         Replica& replica, Strategy& old) {
  auto strategy = make_strategy(spec, crew);
  strategy->begin(replica);
  const std::vector<Kept> from = old.memories(), into = strategy->memories();
  for (std::size_t k = 0; k < into.size(); ++k)
    if (into[k].in_checkpoints) copy(into[k].values.bytes(), from[k].values.bytes());
  strategy->restore(old.state());
  EXPECT_EQ(strategy->state(), old.state());
  return strategy;
}

// The weights of two workers after eight steps with numbers that round; `resumes`: from a
// checkpoint after the third.
inline std::vector<Floats> weights_after(const std::string& spec,
                                         const std::function<Crew(Rank&)>& crew_of,
                                         std::size_t count, bool resumes) {
  std::vector<Floats> weights(2);
  run_loopback(2, [&](Rank& rank) {
    const Crew crew = crew_of(rank);
    ToyReplica replica(nullptr, Memory::plain, count, 0.25f);
    auto strategy = make_strategy(spec, crew);
    strategy->begin(replica);
    const std::vector<std::size_t> samples{3, 1};
    for (std::uint64_t t = 0; t < 8; ++t) {
      if (resumes && t == 3) strategy = resumed(spec, crew, replica, *strategy);
      for (std::size_t i = 0; i < count; ++i)
        replica.gradient_span()[i] =
            std::sin(static_cast<float>(rank.rank() + 1) * static_cast<float>(i * t + 1));
      strategy->update(replica, {t, 0, samples});
    }
    weights[rank.rank()] = copy_of(replica.weight_span());
  });
  return weights;
}

}  // namespace lockstep::testing
