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
  // Throws what Launch throws. The launcher may be the one to see Ctrl-C: then it passes it on to
  // `interrupt`, an eventfd.
  Launched(const LaunchOptions&, int interrupt);
  // They should be leaving by now; those that are not are stopped.
  ~Launched() override;

  std::string verdict() override;

 private:
  // The launcher wants a thread that outlives its workers. This one ends with the verdict.
  std::optional<Launch> launch_;
  std::atomic<bool> stopping_ = false;
  std::shared_future<std::string> verdict_;
};

}  // namespace lockstep
