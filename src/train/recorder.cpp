#include "train/recorder.h"

#include <unistd.h>

#include <bit>
#include <filesystem>
#include <sstream>

#include "cluster/netns.h"
#include "collectives/broadcast.h"
#include "collectives/gather.h"
#include "core/json_text.h"
#include "core/whole_file.h"
#include "measure/machine.h"
#include "train/evaluate.h"
#include "train/run_state.h"
#include "transport/channels.h"
#include "transport/real_rank.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;
constexpr Tag kOrigin = channels::kOrigin;
constexpr std::uint64_t kSettleSteps = 64;  // at most so many steps of a timeline are lost

// A resumed run appends to this file of JSON lines. Drops the lines whose `key` is more than
// `step`, since these steps will be taken again, and what a crash left of a line.
void cut_after(const std::string& path, const std::string& key, std::uint64_t step) {
  if (!std::filesystem::exists(path)) return;
  std::istringstream lines(read_whole(path));
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    const auto json = json_in(line);
    if (!json.is_object()) continue;
    const auto number = json.value(key, nlohmann::ordered_json(0));
    if (number.is_number() && number <= step) kept += line + "\n";
  }
  write_whole(path, kept);
}

}  // namespace

Recorder::Recorder(Rank& rank, const Experiment& experiment, const WorkerOptions& options,
                   Plan& plan, StepClock& clock, const MeteredRank& metered)
    : rank_(rank),
      experiment_(experiment),
      options_(options),
      plan_(plan),
      clock_(clock),
      metered_(metered),
      keeper_(experiment.strategy.goes_in_rounds() ? experiment.config.workers : 0),
      window_(step_window(experiment.config.timeline)),
      waited_(rank.size()),
      waited_since_score_(rank.size()) {}

void Recorder::begin(const Resumed& resumed) {
  taken_ = settled_ = resumed.step;
  if (!resumed.waited.by_rank.empty()) waited_ = resumed.waited;
  scored_ = {resumed.samples, clock_.training_s()};
  folder_ = text_of_first(rank_.peers, options_.folder ? options_.folder->path() : "");
  origin_s_ = clock_.at_first(rank_.clock.now()) - resumed.elapsed_s;
  broadcast(rank_.peers, kOrigin, Values(&origin_s_, 1, Type::fp64));
  if (!folder_.empty()) write([&] { open_files(resumed.step); });
}

void Recorder::write(const std::function<void()>& what) {
  if (failed_) return;
  try {
    what();
  } catch (const std::exception& e) {
    failed_ = true;
    timeline_.reset();
    events_.reset();
    // Without the file's name, which differs by rank: one sentence is enough for all of them.
    const std::string all = e.what(), why = all.substr(all.rfind(": ") + 1);
    if (options_.watcher)
      options_.watcher->notice(fmt::format(
          "samples, timeline and scores are not written to {} any more, training goes on:{}",
          folder_, why.starts_with(' ') ? why : " " + all));
  }
}

void Recorder::open_files(std::uint64_t step) {
  const TrainConfig& config = experiment_.config;
  // On other hosts the run's folder may not be there: then what this rank keeps is kept there.
  std::filesystem::create_directories(folder_);
  if (config.sample_every > 0) {
    const std::string path = fmt::format("{}/worker-{}.jsonl", folder_, rank_.rank());
    cut_after(path, "step", step);
    sampler_ = open_sampler(path);
    sampler_->post(progress());
  }
  if (rank_.rank() != keeper_) return;
  cut_after(folder_ + "/metrics.jsonl", "steps", step);
  if (window_.last > 0)
    timeline_.emplace(folder_ + "/timeline.json", config.workers, rank_.size(), step);
  calendar_origin_s_ = calendar_now() - elapsed_s();
  if (config.tensorboard)
    events_.emplace(folder_ + "/events.out.tfevents.lockstep", step, calendar_now());
}

std::unique_ptr<Sampler> Recorder::open_sampler(const std::string& path) const {
  const TrainConfig& config = experiment_.config;
  const bool simulated = experiment_.simulation.has_value();
  const int r = rank_.rank();
  SamplerOptions options;
  options.path = path;
  options.period_s = config.sample_every;
  options.origin_s = origin_s_ + rank_.clock.now() - clock_.at_first(rank_.clock.now());
  options.header = nlohmann::ordered_json{
      {"kind", "samples"},
      {"schema_version", 1},
      {"rank", r},
      {"role", r < config.workers ? "worker" : "server"},
      {"host", simulated ? fmt::format("host{}", rank_.peers.host_of(r)) : this_machine().host},
      {"pid", simulated ? Json(nullptr) : Json(getpid())},
      {"period_seconds", config.sample_every},
      {"simulated",
       simulated}}.dump();
  if (!options_.own_process) return sampler_of_steps(options, rank_.clock);
  if (cluster_kind(config.cluster) == "netns") {
    options.interface = NetnsHosts::kIface;
    options.cgroup_prefix = HostCgroup::kPrefix;
  }
  return sampler_of_process(options);
}

RankProgress Recorder::progress() const { return {taken_, metered_.exchanged(), metered_.other()}; }

void Recorder::stepped(std::uint64_t taken) {
  taken_ = taken;
  if (sampler_ && !failed_ && sampler_->due()) write([&] { sampler_->post(progress()); });
  // A simulation that dies can be had again, and its ranks would be charged for meeting.
  if (experiment_.simulation || !experiment_.in_step() || !window_.has(taken)) return;
  if (std::has_single_bit(taken) || taken % kSettleSteps == 0) settle(rank_.peers);
}

void Recorder::evaluated(double start, double end, std::uint64_t taken) {
  if (window_.has(taken))
    evaluated_.push_back({clock_.at_first(start), clock_.at_first(end), taken});
}

LaneEvent Recorder::since_start(LaneEvent event) const {
  event.start -= origin_s_;
  event.end -= origin_s_;
  return event;
}

// How many steps; for each how long this rank waited and, if it is shown, its stamps and spans;
// then evaluations.
std::vector<double> Recorder::row_of(const std::vector<TimedStep>& steps) const {
  std::vector<double> row{static_cast<double>(steps.size())};
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const TimedStep& s = steps[i];
    row.push_back(s.wait_s);
    if (!window_.has(settled_ + i + 1)) continue;
    row.insert(row.end(), {s.start, s.ready, s.end, s.optimiser_at, s.optimiser_s, s.backward_at,
                           s.backward_s, static_cast<double>(s.spans.size())});
    for (const BucketSpan& span : s.spans)
      row.insert(row.end(), {static_cast<double>(span.part), static_cast<double>(span.bucket),
                             span.start, span.end, static_cast<double>(span.bytes)});
    row.push_back(static_cast<double>(s.passes.size()));
    for (const PassSpan& pass : s.passes)
      row.insert(row.end(), {static_cast<double>(pass.pass), pass.start, pass.end});
  }
  for (const Evaluated& e : evaluated_) row.insert(row.end(), {e.start, e.end});
  return row;
}

void Recorder::settle(Transport& present, std::set<int>* gone) {
  if (experiment_.in_step() && taken_ == settled_ && evaluated_.empty()) return;
  std::vector<TimedStep> mine;
  if (taken_ > settled_) mine = experiment_.in_step() ? clock_.settle(present) : clock_.settle();
  const auto rows = rows_at_first(present, row_of(mine), gone);
  if (present.rank() == 0) take_in(present, mine, rows);
  settled_ = taken_;
  evaluated_.clear();
}

std::vector<double> Recorder::take_row(int rank, const std::vector<double>& row) {
  std::size_t at = 0;
  const auto next = [&] { return row[at++]; };
  std::vector<double> waits(static_cast<std::size_t>(next()));
  for (std::size_t i = 0; i < waits.size(); ++i) {
    TimedStep step;
    step.wait_s = waits[i] = next();
    const std::uint64_t number = settled_ + i + 1;
    if (!window_.has(number)) continue;
    for (double* field : {&step.start, &step.ready, &step.end, &step.optimiser_at,
                          &step.optimiser_s, &step.backward_at, &step.backward_s})
      *field = next();
    step.spans.resize(static_cast<std::size_t>(next()));
    for (BucketSpan& span : step.spans) {
      span.part = static_cast<BucketSpan::Part>(static_cast<int>(next()));
      span.bucket = static_cast<std::uint32_t>(next());
      span.start = next();
      span.end = next();
      span.bytes = static_cast<std::uint64_t>(next());
    }
    step.passes.resize(static_cast<std::size_t>(next()));
    for (PassSpan& pass : step.passes) {
      pass.pass = static_cast<int>(next());
      pass.start = next();
      pass.end = next();
    }
    if (timeline_)
      for (LaneEvent event : lanes_of(step)) timeline_->add(rank, number, since_start(event));
  }
  for (const Evaluated& e : evaluated_) {
    const double start = next(), end = next();
    if (timeline_ && end > start)
      timeline_->add(rank, e.step, since_start({Lane::evaluate, start, end}));
  }
  return waits;
}

void Recorder::take_in(Transport& present, const std::vector<TimedStep>& mine,
                       const std::vector<std::vector<double>>& rows) {
  std::vector<double> waited(mine.size());
  for (int r = 0; r < present.size(); ++r) {
    const int rank = present.job_rank(r);
    if (rows[r].empty()) continue;  // gone
    const std::vector<double> waits = take_row(rank, rows[r]);
    if (!experiment_.in_step() || rank >= experiment_.config.workers) continue;
    for (std::size_t i = 0; i < mine.size(); ++i) waited[i] += waits[i];
  }
  for (std::size_t i = 0; i < mine.size() && experiment_.in_step(); ++i) {
    waited_.add(mine[i].last, waited[i]);
    waited_since_score_.add(mine[i].last, waited[i]);
  }
  if (timeline_) write([&] { timeline_->flush(); });
}

void Recorder::keep(ProgressLog& log, Score& score, std::uint64_t samples, bool publishes) {
  if (publishes) publish(score, samples);
  if (!experiment_.hollow()) log.scored(score);
  if (score.ends_epoch) log.epoch_ended(score.training_s);
  if (!publishes || experiment_.hollow()) return;
  if (options_.folder) write([&] { options_.folder->add_metrics(to_json(score)); });
  // Not where the run is now: scores of ranks that go apart come late.
  const std::uint64_t step = score.steps > 0 ? score.steps - 1 : 0;
  if (options_.watcher) options_.watcher->score(score, plan_.position(step).epoch);
}

void Recorder::keep_model(Learner& learner, const Model& model) {
  keep_model([&](const std::string& path) {
    return save_model(learner, model, path, experiment_.config.audit);
  });
}

void Recorder::keep_model(const std::function<std::string(const std::string& path)>& save) {
  if (options_.folder) options_.folder->make_room_for_model();
  model_sha256_ = save(options_.folder ? options_.folder->model() : std::string());
}

void Recorder::publish(Score& score, std::uint64_t samples) {
  const double seconds = score.training_s - scored_.training_s;
  score.waited_for = waited_since_score_.straggler(seconds * experiment_.config.workers);
  if (events_) {
    const auto scalar = [&](const char* tag, double value) {
      events_->scalar(tag, score.steps, calendar_origin_s_ + elapsed_s(), value);
    };
    scalar("accuracy", score.accuracy);
    if (score.dice) scalar("dice", *score.dice);
    if (score.iou) scalar("iou", *score.iou);
    scalar("loss/test", score.loss);
    scalar("loss/train", score.train_loss);
    if (seconds > 0)
      scalar("samples_per_second", static_cast<double>(samples - scored_.samples) / seconds);
    scalar("consensus_distance", score.consensus_distance);
    write([&] { events_->flush(); });
  }
  scored_ = {samples, score.training_s};
  waited_since_score_ = Stragglers(rank_.size());
}

void Recorder::finish(Transport& present, std::set<int>* gone) {
  settle(present, gone);
  if (!sampler_) return;
  write([&] { sampler_->post(progress()); });
  try {
    sampler_->finish();
  } catch (const std::exception&) {
    write([] { throw; });
  }
}

double Recorder::elapsed_s() const { return clock_.at_first(rank_.clock.now()) - origin_s_; }

void Recorder::add_waits(TrainResult& result) const {
  for (Json& rank : result.ranks) {
    const Stragglers::Share& share = waited_.by_rank[rank["rank"].get<int>()];
    rank["waited_for_steps"] = share.steps;
    rank["waited_for_seconds"] = share.seconds;
  }
  result.straggler = waited_.straggler(clock_.training_s() * experiment_.config.workers);
}

std::optional<MemoryPeaks> Recorder::peaks() const {
  return sampler_ ? sampler_->peaks() : std::nullopt;
}

}  // namespace lockstep
