// GEMS' MASTER: two replicas of the network on the same workers, in opposite directions, by turns:
// stage p of the second is where stage K-1-p of the first is. When the first replica's backward has
// left the last worker, that worker is free, and so is its memory: the second replica's forward
// begins there and follows the backward down (Jain et al., GEMS: GPU-enabled memory-aware
// model-parallelism system for distributed DNN training, 2020; GEMS' basic form is `plain`).
//
// Order at each worker: F B of a batch of the first replica, F B of one of the second, and so on
// for `times` batches of each; with `microbatches` the F and B of a batch are those of gpipe
// without recomputation. The step's gradient is the mean over 2 x `times` batches, so the replicas
// end the step with the same weights. Cost: R = 2 x times batches, one micro-batch each, equal
// stages: K(f+b) + (R-1)(min(f,b) + K max(f,b)), where plain takes R K (f+b): with b = 2f at
// most 1.5 times as fast. Memory: weights of two stages, p and K-1-p, and the activations of one
// batch.
#include "core/units.h"
#include "parallel/pipeline_schedule.h"

namespace lockstep {

PipelineSchedule gems_schedule(const Options& options, int workers) {
  const int micros = micros_of(options, workers);  // of a batch
  const int times = parse_integer("times of 'gems'", options.text("times"), 1, 4096);
  PipelineSchedule schedule;
  schedule.workers = schedule.stages = workers;
  schedule.replicas = 2;
  schedule.micros = times * micros;
  schedule.batches = times;
  schedule.placement = StagePlacement::gems;
  for (int worker = 0; worker < workers; ++worker) {
    auto& order = schedule.orders.emplace_back();
    for (int batch = 0; batch < times; ++batch)
      for (const int replica : {0, 1})
        for (const StagePass pass : {StagePass::forward, StagePass::backward})
          for (int i = 0; i < micros; ++i)
            order.push_back(
                {pass, replica, replica == 0 ? worker : workers - 1 - worker, batch * micros + i});
  }
  return schedule;
}

}  // namespace lockstep
