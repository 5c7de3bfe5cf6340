// Watches one rank and writes its samples. A rank with a process to itself is watched by a thread
// beside it, by wall time; one that shares its process (simulated, or a thread among others) is
// sampled when it ends a step, by its own clock, and what is the process's is left out.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "measure/sample.h"
#include "transport/rank.h"

namespace lockstep {

struct SamplerOptions {
  std::string path, header;  // of the file that is appended to, and what the samples start with
  double period_s = 0.1;
  double origin_s = 0;        // when t is 0, on this rank's clock
  std::string interface;      // of a network namespace of this rank's host; empty: none
  std::string cgroup_prefix;  // how this host's own control groups are called; empty: none
};

struct MemoryPeaks {
  std::uint64_t private_bytes = 0, shared_bytes = 0;
};

class Sampler {
 public:
  // Writes a last sample if finish() has not.
  virtual ~Sampler() = default;
  // Is anything to be gained from a post() now?
  virtual bool due() const = 0;
  // By the rank's thread, between steps: costs it next to nothing. InternalError if the file could
  // not be written since.
  virtual void post(const RankProgress&) = 0;
  // After a last post(): that is in the file when this returns, and nothing is sampled any more.
  virtual void finish() = 0;
  // As sampled. Call after finish(). Nothing where memory is not this rank's own.
  virtual std::optional<MemoryPeaks> peaks() const = 0;
  // CPU time of a thread of its own, what sampling cost. Call after finish().
  virtual double cost_s() const = 0;
};

// A thread of its own. REQUIRES: this process is one rank's, whose clock is wall_now().
std::unique_ptr<Sampler> sampler_of_process(const SamplerOptions&);
// The clock outlives it. Samples are at least a period apart.
std::unique_ptr<Sampler> sampler_of_steps(const SamplerOptions&, const Clock&);

}  // namespace lockstep
