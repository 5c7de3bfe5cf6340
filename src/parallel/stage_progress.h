// What is done of a step of a pipeline, and when each further action could begin. The one place
// that knows which action needs which:
//   forward           forward of the stage before, and of every stage that skips to this one
//   recompute         forward of the same stage, whose inputs were kept
//   backward          forward of the same stage; backward of the next one, and of every stage that
//                     this one skips to: their gradients are added to the main path's
//   backward_inputs   as backward
//   backward_weights  backward_inputs of the same stage
// all of the same replica and micro-batch. A worker does one action after another, so that a
// recompute need not be waited for: it stands before its backward.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "parallel/pipeline_schedule.h"

namespace lockstep {

// What passes from a stage to a later one for every micro-batch: what the next stage needs, or a
// skip connection, straight to its consumer. The gradient comes back the same way and is as long.
struct StageLink {
  int from = 0, to = 1;  // stages
  double message_s = 0;  // from the end of an action to the beginning of one that needed it
  std::uint64_t bytes = 0;
};

class StageProgress {
 public:
  // Every stage needs the one before, whether there is a link or not.
  StageProgress(int replicas, int stages, int micros, std::span<const StageLink> links = {});

  // When all that the action needs has arrived; infinity as long as some of it is not done.
  double ready_s(const Action&) const;
  void add(const Action&, double end_s);

 private:
  struct Ends {
    double forward_s, inputs_s;  // infinity: not done
  };
  std::size_t index_of(const Action&, int stage) const;
  const Ends& ends(const Action& action, int stage) const { return ends_[index_of(action, stage)]; }

  int stages_, micros_;
  std::vector<Ends> ends_;                          // by replica, stage, micro-batch
  std::vector<std::vector<StageLink>> into_, out_;  // by stage
};

}  // namespace lockstep
