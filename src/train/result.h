// What comes out of a run, on the way and at its end: scores, and the summary that is in run.json
// under `result` and on stdout with --json. Units are in the names; a figure that does not exist is
// null.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "measure/ledger.h"
#include "measure/machine.h"
#include "measure/profile.h"
#include "measure/sample_curve.h"
#include "measure/sampler.h"
#include "measure/step_clock.h"
#include "strategies/figures.h"
#include "train/config.h"
#include "transport/transport.h"

namespace lockstep {

// One rank's part of it.
struct RankReport {
  int rank = 0;
  bool works = true;  // else a dedicated server
  std::string host;
  std::uint64_t steps = 0, samples = 0;
  double training_s = 0;
  Spent spent;
  Traffic exchanged;  // by the strategy, during training steps
  std::uint64_t bytes_other = 0;
  std::optional<Usage> usage;        // none in simulation
  std::optional<MemoryPeaks> peaks;  // as sampled
  Contributions contributions;       // to the numbers it holds; none where all step together
  std::optional<double> mass;        // where workers go apart: see Strategy::mass()
  Sends sends;
  Coding coding;
  std::optional<std::uint64_t> peak_tensor_bytes;  // in a step; none in simulation
};
nlohmann::ordered_json to_json(const RankReport&);

// The score at one point of the run, on the model that the strategy defines.
struct Score {
  std::uint64_t steps = 0;  // taken before it
  bool ends_epoch = true;
  double training_s = 0;
  double accuracy = 0;
  double loss = 0;        // of the test set
  double train_loss = 0;  // mean since the last score, of all workers
  double consensus_distance = 0;
  std::uint64_t bytes = 0;  // sent by all ranks so far, by the strategy
  std::vector<double> by_class;
  double most_predicted = 0;      // the share of the class that is predicted most
  std::optional<int> waited_for;  // the rank that stood out since the last score, if one did
  // Of answers for each pixel: Dice of an image, in the mean over the images, and intersection over
  // union of a class over the whole test set, in the mean over the classes.
  std::optional<double> dice, iou;
};
nlohmann::ordered_json to_json(const Score&);
Score score_from_json(const nlohmann::json&);

struct TrainResult {
  std::string status = "done", reason;  // done|failed|stopped; why
  std::string collective;               // what `auto` chose; empty: the strategy uses none
  // Of gradients, all ranks together, first sent first; empty: all go together.
  std::vector<BucketFigures> buckets;
  std::optional<double> link_bytes_per_s;  // of a rank, as far as the settings say so
  std::string data;                        // what was really used
  bool simulated = false, oversubscribed = false;
  std::uint64_t steps = 0, samples = 0;
  std::optional<SteadyRate> steady;  // none: there is no window without start and tail
  std::vector<int> lost;             // ranks that died; the others went on
  // Where a manager hands out tasks: how often one was handed out again, and how many nobody did.
  std::optional<std::uint64_t> tasks_reissued, tasks_dropped;
  double split_s = 0;
  double compute_variance_s2 = 0;  // see Spent
  std::string model_sha256;        // of the final weights
  std::vector<Score> scores;
  std::vector<double> seconds_by_epoch;
  std::vector<nlohmann::ordered_json> ranks;  // RankReports, and how each was waited for
  std::optional<int> straggler;               // the rank that stood out, if one did
  std::set<std::string> damaged;              // files of the data, and why; others stood in

  // From `ranks`: what its workers trained on.
  void count_samples();
  // The same of steps, where not all took equally many: the mean.
  void count_steps();
};

// Collective over `present`: on the first of them, what all ranks report, the steady rate that
// follows from their curves, and the damaged files that any has found. `gone`: see gather.h.
void gather_reports(Transport& present, const RankReport& mine, const SampleCurve&,
                    const std::vector<std::string>& damaged, std::set<int>* gone, TrainResult&);

// Collective over `present`: on the first of them, what exchanging each bucket took all ranks.
void gather_buckets(Transport& present, std::span<const BucketFigures> mine, std::set<int>* gone,
                    TrainResult&);
// From `ranks`: what the run's compressor took. None: it has not coded anything.
std::optional<CodingRate> coding_rate(const TrainConfig&, const TrainResult&);

// The first score that reaches the target, or null.
const Score* reaches(const std::vector<Score>&, double target);
nlohmann::ordered_json summary(const TrainConfig&, const TrainResult&);

// Where a run is.
struct Progress {
  std::uint64_t step = 0, steps = 0;  // taken, in all; 0: not known yet
  int epoch = 0;                      // from 0
  double loss = 0;                    // of rank 0's last batch
  std::uint64_t samples = 0;          // by all workers, since this process started
  double training_s = 0;              // for those
};

// Follows a run while it goes on: the progress line, the terminal, the launcher. Rank 0 alone calls
// step() and score(), between steps; any rank calls notice(), from its own thread.
class Watcher {
 public:
  virtual ~Watcher() = default;
  virtual void notice(const std::string& sentence) = 0;
  // After every step: must cost next to nothing.
  virtual void step(const Progress&) = 0;
  virtual void score(const Score&, int epoch) = 0;
};

}  // namespace lockstep
