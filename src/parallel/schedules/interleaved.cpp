// Interleaved 1F1B: the network is cut into v K stages, and worker k holds stages k, k+K, k+2K, …,
// its v chunks. A micro-batch passes each worker v times, each time for 1/v of the work, so that
// the pipeline fills v times as fast (Narayanan et al., Efficient large-scale language model
// training on GPU clusters using Megatron-LM, 2021).
//
// Order: micro-batches go in groups of K, which is why K must divide M: a group passes chunk 0,
// then chunk 1, …; backwards take the chunks from the last to the first. Worker k takes
// 2(K-1-k) + (v-1)K forwards ahead, then forwards and backwards by turns.
// Cost: M (f+b) + (K-1)(f+b)/v, with f and b for all chunks of a worker together. There are
// (vK-1)/(K-1) times as many messages as in 1f1b.
// Memory: about that of 1f1b times 1 + (K-1)/(vK).
#include <algorithm>

#include "core/error.h"
#include "core/units.h"
#include "parallel/pipeline_schedule.h"

namespace lockstep {

PipelineSchedule interleaved_schedule(const Options& options, int workers) {
  const int micros = micros_of(options, workers);
  const int chunks =
      parse_integer("chunks of 'interleaved' (1 would be 1f1b)", options.text("chunks"), 2, 1024);
  if (micros % workers != 0)
    throw UsageError(fmt::format(
        "interleaved with {} micro-batches on {} workers: micro-batches pass the chunks in groups "
        "of one a worker, so their number must be a multiple of {}",
        micros, workers, workers));

  PipelineSchedule schedule;
  schedule.workers = workers;
  schedule.stages = workers * chunks;
  schedule.micros = micros;
  schedule.placement = StagePlacement::interleaved;
  const int all = micros * chunks;  // forwards of a worker, and backwards
  const auto action = [&](StagePass pass, int worker, int i) {
    const int chunk = i / workers % chunks;
    const int from_first = pass == StagePass::forward ? chunk : chunks - 1 - chunk;
    const int micro = i / (workers * chunks) * workers + i % workers;
    return Action{pass, 0, from_first * workers + worker, micro};
  };
  for (int worker = 0; worker < workers; ++worker) {
    const int ahead = std::min(all, 2 * (workers - 1 - worker) + (chunks - 1) * workers);
    auto& order = schedule.orders.emplace_back();
    for (int i = 0; i < all + ahead; ++i) {
      if (i < all) order.push_back(action(StagePass::forward, worker, i));
      if (i >= ahead) order.push_back(action(StagePass::backward, worker, i - ahead));
    }
  }
  return schedule;
}

}  // namespace lockstep
