// GPipe, or fill and drain: the micro-batches follow each other through the stages, all of them
// forward and then all of them back, and the weights change once (Huang et al., GPipe: Efficient
// training of giant neural networks using pipeline parallelism, 2019).
//
// Order at each stage: F0 F1 … F(M-1), B0 B1 … B(M-1). The paper draws the backwards in falling
// order. Ours rise, which takes as long, and sums gradients in the order of 1f1b: the same bits.
// Cost: (M+K-1)(f+b) with equal stages; the bubble is (K-1)/(M+K-1) of it, small from M = 4K on.
// Memory: the activations of all M micro-batches. With `recompute` a stage keeps its inputs only,
// and computes its activations again before each backward: those of one micro-batch, for f more a
// micro-batch. That f needs no gradient, so a stage spends its wait for the first gradient on it:
// (M+K-1)(f+b) + M f in all.
#include "parallel/pipeline_schedule.h"

namespace lockstep {

PipelineSchedule gpipe_schedule(const Options& options, int workers) {
  const int micros = micros_of(options, workers);
  const bool recompute = options.flag("recompute");
  PipelineSchedule schedule =
      of_stages(workers, micros, options.flag("folded"), [&](int stage, int) {
        std::vector<Action> order;
        for (int micro = 0; micro < micros; ++micro)
          order.push_back({StagePass::forward, 0, stage, micro});
        for (int micro = 0; micro < micros; ++micro) {
          if (recompute) order.push_back({StagePass::recompute, 0, stage, micro});
          order.push_back({StagePass::backward, 0, stage, micro});
        }
        return order;
      });
  schedule.recomputes = recompute;
  return schedule;
}

}  // namespace lockstep
