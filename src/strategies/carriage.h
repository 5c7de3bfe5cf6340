// How the numbers of a run travel, as its settings say: in fewer bytes (--compress), bucket by
// bucket, and while backward still runs (--overlap). Says which strategies that is sound for, and
// makes what the crew asks (see mean.h and push_code.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "compression/compression.h"
#include "strategies/registry.h"

namespace lockstep {

struct Carriage {
  std::string compress = {};     // a compressor's spec; empty: numbers go as they are
  std::string overlap = "none";  // none, wfbp or merged
  double bucket_mib = 25;        // 0: each tensor is a bucket
  double first_bucket_mib = 1;   // of the first that is sent
  std::string buckets = {};      // a plan: numbers in each bucket, "5130,21840"; empty: by size
  std::string collective = "auto";
};

// UsageError, in one sentence with the reason, if a strategy's numbers can't travel so, or a value
// is none.
void check_carriage(const Carriage&, std::string_view strategy, const RunTerms&,
                    const StrategyRow* own = nullptr);
// What whoever starts such a run should be told: that messages will be longer than the numbers.
std::optional<std::string> notice_of_carriage(const Carriage&, std::string_view strategy,
                                              const RunTerms&, const StrategyRow* own = nullptr);
// Does the compressor do what SGD's momentum and weight decay do? Then the optimiser must not, too.
bool takes_over_sgd(const Carriage&);

// The crew's means and push codes. REQUIRES: check_carriage().
void carry(const Carriage&, std::string_view strategy, bool audit, const OptimiserTerms&, Crew&,
           const StrategyRow* own = nullptr);

}  // namespace lockstep
