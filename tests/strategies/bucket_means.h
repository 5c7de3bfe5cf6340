// Trainings by means of buckets with every compressor, which several tests share.
#pragma once

#include "audited_training.h"
#include "compression/registry.h"
#include "strategies/bucket_mean.h"

namespace lockstep::testing {

inline const World kLoopback{"loopback", run_loopback};
inline constexpr std::size_t kCount = 43;  // three matrices of 3 x 4, and a bias

// Every compressor, and what else takes another path. Empty: numbers as they are.
inline const std::vector<std::string> kCodes = {"",
                                                "fp16",
                                                "fp16:feedback=on",
                                                "bf16",
                                                "bf16:feedback=on",
                                                "int8:bucket=8",
                                                "int8:bucket=8,stochastic=on",
                                                "int8:bucket=8,feedback=on",
                                                "qsgd:bucket=8",
                                                "qsgd:levels=3",
                                                "terngrad",
                                                "onebit:bucket=8",
                                                "sign",
                                                "sign:feedback=off",
                                                "topk:ratio=0.25",
                                                "topk:ratio=0.25,feedback=off",
                                                "topk:ratio=1",
                                                "randomk:ratio=0.25",
                                                "randomk:ratio=0.5,feedback=off",
                                                "randomk:ratio=1",
                                                "threshold:tau=0.7",
                                                "threshold",
                                                "dgc:ratio=0.25,warmup=0",
                                                "dgc:ratio=0.1,warmup=2",
                                                "powersgd:rank=1,saving=0.5,start=0",
                                                "powersgd:rank=1,saving=0.5,start=2"};

inline Buckets small_buckets(std::span<const TensorGradient> tensors) {
  return buckets_by_size(tensors, 20, 60);
}

enum class Cut { one, several, overlapped, measured };

inline MeanRule rule_of(const std::string& code, Cut cut, int workers) {
  MeanRule rule;
  if (!code.empty()) rule.compression = compression(code);
  if (cut != Cut::one) rule.buckets.plan = small_buckets;
  rule.buckets.overlap = cut == Cut::overlapped || cut == Cut::measured;
  rule.buckets.measures_plan = cut == Cut::measured;
  rule.notes_losses = true;
  rule.optimiser = {.workers = workers, .momentum = 0.5, .steps_per_epoch = 2};
  return rule;
}

inline Training with(const std::string& code, Cut cut, int workers, const std::string& spec) {
  Training t;
  t.make = [spec](const Crew& crew) { return make_strategy(spec, crew); };
  t.means = bucket_means(rule_of(code, cut, workers));
  t.workers = workers;
  t.samples = uneven_samples(workers);
  t.steps = 5;
  t.count = kCount;
  t.feeds = rule_of(code, cut, workers).buckets.overlap;
  return t;
}

// Those that say of each weight only where it goes, or that repeat an optimiser.
inline bool is_for_gradients_only(const std::string& code) {
  return code == "sign:feedback=off" || code.starts_with("dgc");
}

}  // namespace lockstep::testing
