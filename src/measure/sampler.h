// Watches one rank and writes its samples. A rank with a process to itself is watched by a thread
// beside it, by wall time; one that shares its process (simulated, or a thread among others) is
// sampled when it ends a step, by its own clock, and what is the process's is left out.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "measure/ledger.h"
#include "measure/probes.h"
#include "transport/rank.h"

namespace lockstep {

// What a rank knows of itself, at the end of a step.
struct RankProgress {
  std::uint64_t steps = 0;  // taken
  Traffic exchange, other;  // so far, by the strategy and for all else
};

// One look at a rank and its process.
struct Sample {
  double t = 0;  // seconds since the run's start
  RankProgress rank;
  // Null in the file where missing. Shares of a core since the sample before.
  std::optional<ProcessFigures> process;
  double user_percent = 0, system_percent = 0;
  std::string_view interface_name;
  std::optional<InterfaceFigures> interface;
  std::optional<CgroupFigures> cgroup;
  std::optional<double> cgroup_percent;
};

// The file of them: worker-R.jsonl of docs/formats.md.
class SampleFile {
 public:
  // Appends to `path`, first the line `header`. InternalError.
  SampleFile(std::string path, const std::string& header);

  // Kept until flush().
  void add(const Sample&);
  // Whole lines to the kernel, so that a crash of this process leaves them readable.
  void flush();

 private:
  const std::string path_;
  std::string kept_;
};

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
