// Plain model parallelism, and GEMS' basic form: a micro-batch goes forward through all stages and
// back through all, and only then comes the next. So at any time one worker computes and K-1 wait.
//
// Order at each stage: F0 B0 F1 B1 …; usually there is one micro-batch, the whole batch.
// Cost: M K (f+b), with f and b for one stage and one micro-batch; no cut into stages makes it
// faster than one worker, since it is for networks that one worker can't hold.
// Memory: the activations of one micro-batch.
#include "parallel/pipeline_schedule.h"

namespace lockstep {

PipelineSchedule plain_schedule(const Options& options, int workers) {
  const int micros = micros_of(options, workers);
  return of_stages(workers, micros, options.flag("folded"), [&](int stage, int) {
    std::vector<Action> order;
    for (int micro = 0; micro < micros; ++micro) {
      order.push_back({StagePass::forward, 0, stage, micro});
      order.push_back({StagePass::backward, 0, stage, micro});
    }
    return order;
  });
}

}  // namespace lockstep
