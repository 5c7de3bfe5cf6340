// Processes started by our launcher, on this machine or in network namespaces, as the crew of an
// engine.
#pragma once

#include <atomic>
#include <future>
#include <optional>

#include "bench/piped_engine.h"
#include "cluster/launch.h"

namespace lockstep {

class Launched : public bench::Crew {
 public:
  // Throws what Launch throws. The launcher may be the one that sees Ctrl-C: then it passes it on
  // to the Interrupt of this process.
  explicit Launched(const LaunchOptions&);
  // They should be leaving by now; those that are not are stopped.
  ~Launched() override;

  bench::Verdict verdict() override;

 private:
  // The launcher wants a thread that outlives its workers. This one ends with the verdict.
  std::optional<Launch> launch_;
  std::atomic<bool> stopping_ = false;
  std::shared_future<bench::Verdict> verdict_;
};

}  // namespace lockstep
