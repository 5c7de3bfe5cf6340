// Which gradients travel together while backward still runs. A bucket is a run of whole tensors in
// the flat gradients; buckets go one after the other, the last tensors first, since backward ends
// with the first ones. Pure functions: where times come in they are arguments, so that ranks that
// are given the same times make the same plan.
//
// The model of time: a bucket is ready when the last of its tensors is; one is sent at a time, in
// order; one of n bytes takes start_s + n * per_byte_s.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "core/slices.h"

namespace lockstep {

// A tensor in the order in which they lie in the flat gradients, in fp32.
struct TensorGradient {
  std::size_t count = 0;  // numbers
  double ready_s = 0;     // since backward began
};

struct LineCost {
  double start_s = 0, per_byte_s = 0;
};

using Buckets = std::vector<Slice>;  // in the order in which they are sent; all gradients once

// How a run cuts its gradients, and when a bucket goes (see bucket_feed.h).
struct BucketRule {
  bool overlap = false;        // as soon as its gradients are final; else when all are
  bool measures_plan = false;  // needs overlap
  // Of the tensors, in order; none: all in one. Until a plan is measured, if it is.
  std::function<Buckets(std::span<const TensorGradient>)> plan = {};
};

// What two slices have in common; without elements where they have nothing.
inline Slice common(Slice a, Slice b) {
  const std::size_t begin = std::max(a.begin, b.begin), end = std::min(a.end(), b.end());
  return {begin, end > begin ? end - begin : 0};
}

// One for all.
Buckets single_bucket(std::span<const TensorGradient>);
// One for each tensor: wait-free backward propagation (Zhang et al., ATC 2017; Poseidon).
Buckets bucket_each(std::span<const TensorGradient>);
// Each is closed once it has `bytes`, the first that is sent once it has `first_bytes`; so one may
// be larger by less than a tensor. The sizes are those of PyTorch's DistributedDataParallel.
Buckets buckets_by_size(std::span<const TensorGradient>, std::size_t first_bytes = 1 << 20,
                        std::size_t bytes = 25 << 20);
// MG-WFBP's rule: a tensor waits for the next one if that is ready less than one start-up after it
// could be sent itself. Never later than bucket_each() or single_bucket(), but not the best there
// is. (Shi, Chu and Li, INFOCOM 2019.)
Buckets merged_greedily(std::span<const TensorGradient>, const LineCost&);
// The plan that ends first; of those the one whose last buckets are largest. Time grows with the
// square of the number of tensors.
Buckets merged_best(std::span<const TensorGradient>, const LineCost&);

// A plan with so many numbers in each bucket, in the order in which they are sent. UsageError
// unless these are whole tensors, and all of them.
Buckets buckets_of(std::span<const std::size_t> counts, std::span<const TensorGradient>);

// When the last bucket has arrived, since backward began. REQUIRES: a plan for these tensors.
double finish_s(const Buckets&, std::span<const TensorGradient>, const LineCost&);

}  // namespace lockstep
