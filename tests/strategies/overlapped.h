// Trainings whose pushes go in buckets, and begin while backward runs.
#pragma once

#include "strategies/buckets.h"

namespace lockstep::testing {

// Each tensor is a bucket.
template <class T>
T in_buckets(T training) {
  training.push_buckets = BucketRule{.plan = bucket_each};
  training.feeds = false;
  return training;
}
template <class T>
T overlapped(T training) {
  training.push_buckets = BucketRule{.overlap = true, .plan = bucket_each};
  training.feeds = true;
  return training;
}
// By a plan that the first steps measure.
template <class T>
T measured(T training) {
  training = overlapped(std::move(training));
  training.push_buckets->measures_plan = true;
  return training;
}

}  // namespace lockstep::testing
