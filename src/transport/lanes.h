// The lanes of a rank. Each belongs to a thread (in simulation an actor) of its own; messages and
// meetings of one lane never mix with those of another. A lane that nobody uses costs a little
// memory, and descriptors where ranks are on several hosts; its thread starts with its first job.
#pragma once

#include "core/error.h"

namespace lockstep {

// How many lanes a job asks for: the same number on all ranks. They are numbered in this order: the
// rank's own, those for what a strategy or a pipeline does beside the computation, and that of
// scores.
struct Lanes {
  int background = 1;

  static constexpr int kMostBackground = 32;
  static constexpr int kOwn = 0;
  static constexpr int kFirstBackground = 1;
  // For what looks at a run and is no part of it. Where ranks are processes or threads its thread
  // has a low priority; in simulation its bytes take the network's latency and none of its
  // bandwidth, so that they slow nothing down.
  constexpr int scoring() const { return kFirstBackground + background; }
  constexpr int count() const { return scoring() + 1; }

  // UsageError if there can't be so many.
  void check() const {
    if (background < 1 || background > kMostBackground)
      throw UsageError(fmt::format("a job asks for {} background lanes: it can have 1 to {}",
                                   background, kMostBackground));
  }
};

}  // namespace lockstep
