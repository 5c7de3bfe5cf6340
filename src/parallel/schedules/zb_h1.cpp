// ZB-H1, the zero-bubble schedule that keeps no more activations than 1F1B: backward is split in
// two, and only the gradients of the inputs go the way of 1F1B, since the stage before waits for
// them. Those of the weights can wait, and fill what would be bubbles (Qi et al., Zero bubble
// pipeline parallelism, 2024).
//
// Order at stage s: as 1f1b with the inputs' gradients B; the weights' gradients W of a micro-batch
// come s micro-batches after its B: W(j) follows B(j+s), and what is left comes at the end.
// Cost: M (F+B+W) + (K-1) max(F, B, F+B-W) for M >= K, with the times of one stage. The published
// (K-1)(F+B-W) holds for W <= min(F, B), and convolutions here have W > B.
// Memory: at each stage the activations of at most min(M, K) micro-batches, until their W.
#include <algorithm>

#include "parallel/pipeline_schedule.h"

namespace lockstep {

PipelineSchedule zb_h1_schedule(const Options& options, int workers) {
  const int micros = micros_of(options, workers);
  return of_stages(workers, micros, false, [&](int stage, int stages) {
    const int ahead = std::min(micros, stages - 1 - stage);
    std::vector<Action> order;
    for (int i = 0; i < micros + ahead + stage; ++i) {
      const int back = i - ahead;
      if (i < micros) order.push_back({StagePass::forward, 0, stage, i});
      if (back >= 0 && back < micros) order.push_back({StagePass::backward_inputs, 0, stage, back});
      if (back >= stage && back - stage < micros)
        order.push_back({StagePass::backward_weights, 0, stage, back - stage});
    }
    return order;
  });
}

}  // namespace lockstep
