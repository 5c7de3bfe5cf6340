// Our engine when another launcher (mpirun, srun, torchrun, two shells) started the ranks: this
// process is one of them, and all run the same bench with the same flags.
#pragma once

#include "bench/engine.h"
#include "cluster/job.h"

namespace lockstep {

class JoinedEngine : public bench::Engine {
 public:
  // Joins the job; see cluster/job.h.
  explicit JoinedEngine(const Start& start) : job_(start) {}
  ~JoinedEngine() override;

  const std::string& name() const override { return name_; }
  // Collective. On rank 0 the results of all ranks joined, on the others their own.
  bench::Result measure(const bench::Work&) override;

 private:
  const std::string name_ = "lockstep";
  bool failed_ = false;
  Job job_;
};

}  // namespace lockstep
