// Means that a run wants in fewer bytes, or while backward still runs: those that Crew::means makes
// in place of the exact one (see mean.h).
//
// The numbers are cut into buckets, runs of whole tensors (see buckets.h), and each bucket is
// averaged by itself, as its compression needs (see bucket_average.h). Buckets go one after the
// other in the same order on all ranks. With overlap each goes as soon as all its numbers are
// ready, in a job of the rank's background; else all go when the mean is run. The same buckets give
// the same bits either way.
//
// Means of weights send differences from the last mean, or from what all have made of it since
// (Mean::all_hold), which all workers know; the result is that plus the mean of the differences. So
// a compression may leave out most of them, and what it leaves out is a late change of the weights,
// not a weight that is missing (Qsparse-Local-SGD: Basu et al., NeurIPS 2019).
#pragma once

#include <functional>
#include <optional>

#include "compression/compression.h"
#include "strategies/buckets.h"
#include "strategies/strategy.h"

namespace lockstep {

struct MeanRule {
  std::optional<Compression> compression = {};  // none: numbers as they are
  BucketRule buckets = {};  // of gradients; other numbers are there at once, and go in one
  // The audit wants to know what messages lose: a mean whose compression keeps no memory then has
  // some that say so.
  bool notes_losses = false;
  OptimiserTerms optimiser = {};  // for compressors that need it
};

// UsageError where a compression can't stand in for the numbers that are averaged: a vote on
// weights, or dgc, which takes gradients for what they are.
MakeMean bucket_means(MeanRule);

}  // namespace lockstep
