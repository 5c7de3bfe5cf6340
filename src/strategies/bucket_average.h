// The mean of one bucket of numbers over the workers: as they are, or by messages of a compression,
// in the exchange that such messages need (see Averaging in compression/compression.h). A
// BucketMean has one for each of its buckets.
//
// Errors of encoding are memories of the caller's. With p_j what worker j comes with, its own
// message decodes to p_j less what its memory then holds, so that
//
//   mean = (1/m) sum_j (p_j + e_j - e_j') + sum_j (s_j - s_j')
//
// to rounding, whatever the compression is: e_j is j's memory before and e_j' after, s_j that of
// the second message, which only the owner of numbers sends (two shots). With error feedback
// messages carry the memories; without it e_j and s_j count for nothing, and the memories only say
// what was lost, for the audit.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "compression/compression.h"
#include "compression/low_rank.h"
#include "strategies/strategy.h"

namespace lockstep {

// How the mean of such numbers is made. Sums of narrow numbers are rounded on their way, and that
// is in nobody's memory: with error feedback they go in two shots, and so do all weights, whose
// differences are smaller than what rounding of the weights would hide from the audit.
Averaging averaging_for(const Compression&, Purpose of);

// What a bucket is, and what it works with. Values are those of the bucket alone, and stay in
// place.
struct BucketTerms {
  const Crew& crew;
  const Compression* compression = nullptr;  // none: numbers as they are
  Purpose of = Purpose::gradients;
  Values numbers;
  std::uint32_t bucket = 0;
  // As long as the numbers. Those of the compression, if it has any; else none, or what is lost.
  std::vector<Values> memories = {};
  // What the second message keeps or loses; of a vote, what it changes. None: nobody asks.
  std::optional<Values> second = {};
  std::vector<Tensor2d> tensors = {};  // that the numbers are, from 0 on
  OptimiserTerms optimiser = {};       // its weights are those of the bucket
  // Are counted on: the bucket's own, those of all buckets, and what took place when.
  BucketFigures& figures;
  Coding& coding;
  std::vector<BucketSpan>& spans;
};

class BucketAverage {
 public:
  virtual ~BucketAverage() = default;

  // Collective over the workers, on any lane. In: the numbers are this worker's, times its share.
  // Out: the mean, the same bits on all workers.
  virtual void run(Transport& lane, Tag, std::uint64_t step, std::span<const double> shares) = 0;
  // Bytes that `rank` sends in that: in the last one, where they depend on the numbers.
  virtual std::uint64_t bytes_sent(int rank) const = 0;
  // Of PowerSGD: what the next run starts from. Else none.
  virtual Values basis() { return {nullptr, 0, Type::fp32}; }
};

std::unique_ptr<BucketAverage> make_bucket_average(const BucketTerms&);

}  // namespace lockstep
