// An engine whose ranks live inside one process, as threads or as actors in virtual time. Each
// measurement runs in a child of its own, because a process can hold one simulation only, and so
// that Ctrl-C always works.
#pragma once

#include <functional>

#include "bench/engine.h"

namespace lockstep::bench {

class ForkedEngine : public Engine {
 public:
  // Called in the child: does the work on all ranks and joins their results.
  using Run = std::function<Result(const Work&)>;
  ForkedEngine(std::string name, int interrupt, Run run)
      : name_(std::move(name)), interrupt_(interrupt), run_(std::move(run)) {}

  const std::string& name() const override { return name_; }
  Result measure(const Work&) override;

 private:
  const std::string name_;
  const int interrupt_;
  const Run run_;
};

}  // namespace lockstep::bench
