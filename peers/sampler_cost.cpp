// What sampling costs: the same training steps with and without a sampler beside them, in turns
// within one process, so that the ratio holds on a busy machine.
//
//   sampler_cost [BLOCK_SECONDS [REPEATS [PERIOD_SECONDS]]]      (2 9 0.1)
//
// Prints as JSON the sampler's share of a core, by its thread's CPU clock, and samples/s with it as
// a share of those without: median and range over the repeats.
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "measure/sampler.h"
#include "one_worker.h"
#include "replica/malloc.h"
#include "transport/fabric.h"
#include "transport/real_rank.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

Json spread(std::vector<double> values) {
  std::ranges::sort(values);
  return {{"median", values[values.size() / 2]}, {"min", values.front()}, {"max", values.back()}};
}

struct Block {
  double seconds_a_step = 0, share_of_core = 0;
};

// Steps for so long; with a sampler that is told of each, if `period_s` is not 0.
Block steps_for(OneWorker& worker, std::uint64_t& step, double seconds, double period_s,
                const std::string& path) {
  std::unique_ptr<Sampler> sampler;
  SamplerOptions options;
  options.path = path;
  options.header = "{}";
  options.period_s = period_s;
  options.origin_s = wall_now();
  if (period_s > 0) sampler = sampler_of_process(options);
  const std::uint64_t first = step;
  const double start = wall_now();
  while (wall_now() < start + seconds) {
    worker.step(step++);
    if (sampler) sampler->post({step, {4 * step, step, 4 * step, step}, {}});
  }
  const double took = wall_now() - start;
  Block block{took / static_cast<double>(step - first), 0};
  if (!sampler) return block;
  sampler->finish();
  block.share_of_core = sampler->cost_s() / took;
  return block;
}

void compare(Rank& rank, const Experiment& experiment, double seconds, int repeats, double period) {
  OneWorker worker(rank, experiment);
  const std::string path =
      std::filesystem::temp_directory_path() / fmt::format("sampler_cost-{}.jsonl", getpid());
  std::uint64_t step = 0;
  steps_for(worker, step, seconds, 0, path);  // for warming up
  std::vector<double> shares, speeds;
  for (int i = 0; i < repeats; ++i) {
    // Who goes first changes, as a machine's load may.
    Block without, with;
    if (i % 2 == 0) without = steps_for(worker, step, seconds, 0, path);
    with = steps_for(worker, step, seconds, period, path);
    if (i % 2 != 0) without = steps_for(worker, step, seconds, 0, path);
    shares.push_back(100 * with.share_of_core);
    speeds.push_back(without.seconds_a_step / with.seconds_a_step);
  }
  std::filesystem::remove(path);
  fmt::print("{}\n", Json{{"period_seconds", period},
                          {"repeats", repeats},
                          {"steps", step},
                          {"percent_of_core", spread(shares)},
                          {"samples_per_second_ratio", spread(speeds)}}
                         .dump());
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  using namespace lockstep;
  const double seconds = argc > 1 ? std::atof(argv[1]) : 2;
  const int repeats = argc > 2 ? std::atoi(argv[2]) : 9;
  const double period = argc > 3 ? std::atof(argv[3]) : 0.1;
  TrainConfig config;
  config.workers = 1;
  config.data = "synthetic:shape=1x28x28,classes=10,samples=4096";
  config.steps = 1u << 30;
  config.threads = 1;
  keep_freed_memory();
  torch::set_num_threads(1);
  const Experiment experiment(config, {});
  run_loopback(1, [&](Rank& rank) { compare(rank, experiment, seconds, repeats, period); });
}
