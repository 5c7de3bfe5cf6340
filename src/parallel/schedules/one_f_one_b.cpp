// 1F1B with a flush at the end of a step: a stage goes forward with as many micro-batches as are
// needed until the first comes back, and from then on takes one backward for each forward
// (Narayanan et al., PipeDream, 2019; with the flush, so that all passes of a step see the same
// weights: Narayanan et al., Memory-efficient pipeline-parallel DNN training, 2021).
//
// Order at stage s: min(M, K-1-s) forwards, then F B by turns, then the backwards that are left.
// Cost: that of gpipe without recomputation, (M+K-1)(f+b), bubble (K-1)/(M+K-1).
// Memory: at stage s the activations of at most min(M, K-s) micro-batches, where gpipe keeps M.
#include <algorithm>

#include "parallel/pipeline_schedule.h"

namespace lockstep {

PipelineSchedule one_f_one_b_schedule(const Options& options, int workers) {
  const int micros = micros_of(options, workers);
  return of_stages(workers, micros, options.flag("folded"), [&](int stage, int stages) {
    const int ahead = std::min(micros, stages - 1 - stage);
    std::vector<Action> order;
    for (int i = 0; i < micros + ahead; ++i) {
      if (i < micros) order.push_back({StagePass::forward, 0, stage, i});
      if (i >= ahead) order.push_back({StagePass::backward, 0, stage, i - ahead});
    }
    return order;
  });
}

}  // namespace lockstep
