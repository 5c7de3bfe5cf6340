#include "train/trainer.h"

#include <algorithm>
#include <set>

#include "collectives/broadcast.h"
#include "collectives/gather.h"
#include "measure/machine.h"
#include "measure/probes.h"
#include "replica/torch_error.h"
#include "strategies/audit/audit.h"
#include "strategies/audit/watched_replica.h"
#include "strategies/average.h"
#include "strategies/carriage.h"
#include "train/carrier.h"
#include "train/evaluate.h"
#include "train/pipeline_parts.h"
#include "train/worker.h"
#include "transport/channels.h"
#include "transport/rank_group.h"

namespace lockstep {
namespace {

constexpr Tag kInitial = channels::kInitialWeights;

// Weights and gradients lie in windows, which peers on the same host map.
class ReplicaWindows {
 public:
  explicit ReplicaWindows(Transport& peers) : peers_(peers) {}
  ReplicaMemory open(std::size_t count) {
    weights_ = peers_.open_window(count * size_of(Type::fp32));
    gradients_ = peers_.open_window(count * size_of(Type::fp32));
    return {weights_->mine(), gradients_->mine()};
  }

 private:
  Transport& peers_;
  std::unique_ptr<Window> weights_, gradients_;
};

std::unique_ptr<Learner> open_learner(const Experiment& experiment, int rank,
                                      ReplicaWindows& windows, const ComputeTurns& turns) {
  const auto memory = [&](std::size_t count) { return windows.open(count); };
  if (experiment.pipelines) return make_pipeline_learner(experiment, rank, memory, turns);
  return experiment.hollow() ? make_hollow_learner(experiment, memory)
                             : make_torch_learner(experiment, rank, memory, turns);
}

// Of ranks that hold the same stages, those whose pipelines never have samples.
std::vector<int> idle_among(const Transport& equals, const Experiment& experiment) {
  const std::vector<int> without = experiment.plan.idle();
  std::vector<int> idle;
  for (int i = 0; i < equals.size(); ++i)
    if (std::ranges::count(without, experiment.pipelines->pipeline_of(equals.job_rank(i))) > 0)
      idle.push_back(i);
  return idle;
}

// `rank`: among those that keep one model, or some stages of it, in step.
Crew crew_of(Rank& rank, const Experiment& experiment, Values weights) {
  const TrainConfig& config = experiment.config;
  Crew crew{rank,
            experiment.pipelines ? rank.size() : config.workers,
            config.servers,
            config.servers_within_workers(),
            all_reduce_named(config.collective),
            experiment.pipelines ? idle_among(rank.peers, experiment) : experiment.plan.idle(),
            experiment.plan.cut() == Cut::by_share};
  OptimiserTerms optimiser = optimiser_terms(config);
  optimiser.steps_per_epoch = static_cast<double>(experiment.steps_per_epoch);
  optimiser.weights = weights;
  carry(carriage_of(config), config.strategy, config.audit, optimiser, crew, config.own_strategy);
  crew.coding_cost = experiment.coding_cost(rank.peers.job_rank(rank.rank()));
  return crew;
}

// A rank's place where the network is cut over several: the workers of its pipeline, and the ranks
// that hold the same stages, among which the strategy averages. Both work at the same time, so what
// passes between stages has a background lane of its own.
class PipelinePlace {
 public:
  PipelinePlace(Rank& rank, const Pipelines& pipelines)
      : line_(rank, pipelines.ranks_of(pipelines.pipeline_of(rank.rank())), rank.rank(), 1),
        equals_(rank, pipelines.equals_of(rank.rank()), stream_of(rank.rank(), pipelines)),
        carrier_(line_.rank()) {}

  Rank& equals() { return equals_.rank(); }
  void show(Trainee& trainee) {
    trainee.line = &line_.rank().peers;
    trainee.carrier = &carrier_;
  }

 private:
  static int stream_of(int rank, const Pipelines& pipelines) {
    const Layout layout = pipelines.schedule.layout(pipelines.count);
    return layout.stream_of(layout.roles_of(rank).front());
  }

  RankGroup line_, equals_;
  Carrier carrier_;
};

RankReport report_of(const Trainee& trainee, const MeteredRank& metered, const Recorder& recorder,
                     const RunState& state) {
  const Experiment& experiment = trainee.experiment;
  const bool works = trainee.crew.works();
  const int rank = trainee.rank.rank();
  RankReport report{rank,
                    works,
                    experiment.simulation ? fmt::format("host{}", trainee.rank.peers.host_of(rank))
                                          : this_machine().host,
                    state.log.taken(),
                    state.log.own_samples(),
                    state.clock.training_s(),
                    state.clock.spent(),
                    metered.exchanged(),
                    metered.other().bytes_sent,
                    {},
                    recorder.peaks(),
                    trainee.contributions(state),
                    {},
                    figures_of(trainee.strategy).sends,
                    figures_of(trainee.strategy).coding,
                    {}};
  if (!experiment.simulation && works)
    report.peak_tensor_bytes = trainee.learner.peak_tensor_bytes();
  if (!experiment.in_step() && works && trainee.crew.servers == 0)
    report.mass = trainee.strategy.mass();
  return report;
}

// Collective: brings all ranks to where the run starts or goes on. Returns the first step to take.
std::uint64_t start(const Trainee& trainee, Timetable& timetable, Recorder& recorder,
                    Checkpoints& checkpoints, const Generation& members, RunState& state) {
  const Experiment& experiment = trainee.experiment;
  const RunFolder* const folder = trainee.options.folder;
  std::uint64_t first = 0;
  const bool resumes = !experiment.config.resume.empty();
  const bool proves_parts = experiment.pipelines && experiment.config.audit;
  if (resumes) {
    first = checkpoints.restore(state);
    if (proves_parts) prove_equal_parts(trainee.crew.rank.peers, trainee.replica);
  } else {
    if (proves_parts) prove_equal_parts(trainee.crew.rank.peers, trainee.replica);
    broadcast(trainee.crew.rank.peers, kInitial, trainee.replica.weights());
    trainee.strategy.begin(trainee.replica);
  }
  if (!experiment.in_step() && trainee.crew.works())
    timetable.met(members.workers(), state.log.own_samples());
  // As after a checkpoint, so that a resumed run goes on at the same pace to the microsecond.
  members.meet();
  // All have what they go on from: from here on the run's folder may change.
  if (resumes && members.leads() && folder) folder->go_on();
  recorder.begin({first, state.log.samples(), state.before.elapsed_s, state.before.waited});
  if (resumes) checkpoints.line_up(members);
  return first;
}

// Collective over the workers: what the strategy says the model is now, or this rank's stages of
// it.
Model model_now(const Trainee& trainee, const Generation& members, const RunState& state) {
  Transport& averaged = trainee.experiment.pipelines ? trainee.crew.rank.peers : members.workers();
  return model_of(averaged, trainee.strategy, trainee.learner, state.log.own_samples(),
                  trainee.experiment.config.audit);
}

// Collective, over the workers that hold the model or parts of it: the one that leads writes it.
void keep_model(const Trainee& trainee, const Generation& members, const RunState& state,
                Recorder& recorder) {
  const Model model = model_now(trainee, members, state);
  const auto& pipelines = trainee.experiment.pipelines;
  if (!pipelines) {
    if (members.leads()) recorder.keep_model(trainee.learner, model);
    return;
  }
  // The workers of the first pipeline have the whole network between them.
  if (pipelines->pipeline_of(trainee.rank.rank()) != 0) return;
  const std::vector<Model> parts = models_at_first(*trainee.line, model);
  if (members.leads())
    recorder.keep_model([&](const std::string& path) {
      return save_joined_model(trainee.experiment, parts, path, trainee.options.turns);
    });
}

// Collective, out of training time: what time went where, and how good the strategy's model is.
void score_together(const Trainee& trainee, Timetable& timetable, Recorder& recorder,
                    const Generation& members, RunState& state, std::uint64_t taken) {
  const Experiment& experiment = trainee.experiment;
  recorder.settle(members.present());
  std::vector<double> totals = state.log.totals(recorder.exchanged().bytes_sent);
  sum_over_ranks(members.present(), totals);
  Score score =
      ProgressLog::score_from(totals, taken, timetable.ends_epoch(taken), state.clock.training_s());
  Clock& clock = trainee.rank.clock;
  const double start = clock.now();
  const bool works = trainee.crew.works();
  if (works && !experiment.hollow()) {
    const Model model = model_now(trainee, members, state);
    evaluate(members.workers(), trainee.learner, experiment, model,
             floats(trainee.replica.weights()), trainee.strategy.mass() > 0, score,
             trainee.carrier);
  }
  recorder.evaluated(start, works ? clock.now() : start, taken);
  recorder.keep(state.log, score, state.log.samples(), members.leads());
  members.meet();
}

// All ranks take every step together, and meet to be scored. `first`: steps taken before.
void run_together(const Trainee& trainee, Stepper& worker, Timetable& timetable, Recorder& recorder,
                  Checkpoints& checkpoints, const Generation& members, RunState& state,
                  std::uint64_t first) {
  const bool works = trainee.crew.works();
  std::uint64_t step = first, scored_at = 0;
  for (; !timetable.is_over(step); ++step) {
    if (timetable.stops_here(step)) {
      if (step > 0 && !timetable.checkpoint_due(step)) checkpoints.save(members, state, step);
      throw Stopped("the run was stopped");
    }
    if (works) {
      worker.take(members, step);
    } else {
      worker.serve(step, step + 1);
      worker.served(step, step + 1);
    }
    if (timetable.score_due(step + 1)) {
      scored_at = step + 1;
      score_together(trainee, timetable, recorder, members, state, scored_at);
    }
    if (timetable.checkpoint_due(step + 1)) checkpoints.save(members, state, step + 1);
  }
  timetable.end_at(step);
  // A run that ends by itself does not know its last step when that is taken.
  const bool has_scored = scored_at == step || state.log.has_scored(step);
  if (trainee.experiment.has_open_end() && !has_scored)
    score_together(trainee, timetable, recorder, members, state, step);
  if (!works || trainee.experiment.hollow()) return;
  keep_model(trainee, members, state, recorder);
}

// Collective: from where the run starts or goes on, in the loop that the strategy asks for.
TaskCounts run_loop(const Trainee& trainee, Stepper& worker, Timetable& timetable,
                    Recorder& recorder, Checkpoints& checkpoints, Generation& members,
                    RunState& state) {
  const std::uint64_t first = start(trainee, timetable, recorder, checkpoints, members, state);
  if (trainee.experiment.strategy.goes_in_rounds())
    return run_rounds(trainee, worker, timetable, recorder, members, state);
  if (trainee.experiment.in_step())
    run_together(trainee, worker, timetable, recorder, checkpoints, members, state, first);
  else
    run_apart(trainee, worker, timetable, recorder, checkpoints, members, state, first);
  return {};
}

// Collective: what came of the run, whole on the rank that leads.
TrainResult finish(const Trainee& trainee, const RankReport& report, const Timetable& timetable,
                   const Recorder& recorder, const Generation& members, const RunState& state,
                   std::set<int>* gone) {
  const Experiment& experiment = trainee.experiment;
  TrainResult result;
  // Of a pipeline's workers, which all have its samples, the first counts them.
  const bool counts = !experiment.pipelines || experiment.pipelines->worker_of(report.rank) == 0;
  gather_reports(members.present(), report, counts ? state.log.curve() : SampleCurve(),
                 trainee.learner.damaged(), gone, result);
  if (members.leads()) recorder.add_waits(result);
  result.lost = members.lost();
  if (gone)
    for (const int r : *gone) result.lost.push_back(members.present().job_rank(r));
  std::ranges::sort(result.lost);
  state.log.complete(result);
  if (!experiment.strategy.goes_in_rounds() && !experiment.pipelines) result.count_samples();
  if (experiment.strategy.exchange == Exchange::collective)
    result.collective = collective_for(trainee.crew, trainee.replica.weights()).name;
  const TrainConfig& config = experiment.config;
  if (!config.compress.empty() || config.overlap != "none" || !config.buckets.empty())
    gather_buckets(members.present(), figures_of(trainee.strategy).buckets, gone, result);
  result.link_bytes_per_s = experiment.link_bytes_per_s();
  result.model_sha256 = recorder.model_sha256();
  result.steps = timetable.last_step();
  if (!experiment.in_step() && experiment.has_open_end()) result.count_steps();
  result.compute_variance_s2 = state.clock.spent().variance_s2;
  result.data = experiment.data.name;
  result.simulated = experiment.simulation.has_value();
  result.split_s = experiment.split_s;
  const int cores = experiment.cores, ranks = experiment.config.ranks();
  result.oversubscribed = !result.simulated && ranks * experiment.threads(cores) > cores;
  return result;
}

// If a server is lost the error says which of `count` parameters it held.
template <class Run>
WorkerOutcome naming_servers(const Crew& crew, std::size_t count, const Run& run) try {
  return run();
} catch (const TransportError& e) {
  if (!e.is_gone()) throw;
  for (int k = 0; k < crew.servers; ++k) {
    if (crew.rank.peers.job_rank(crew.rank_of_server(k)) != e.peer()) continue;
    const Slice held = crew.shard(k, count);
    throw TransportError(
        e.kind(), e.peer(),
        fmt::format("server {} (rank {}), which held {}, is gone: {}", k, e.peer(),
                    held.count ? fmt::format("parameters {}..{}", held.begin, held.end() - 1)
                               : "no parameters",
                    e.what()));
  }
  throw;
}

void check_rank(const Rank& world, const TrainConfig& config) {
  if (world.size() != config.ranks())
    throw UsageError(fmt::format("the run has {} workers and servers, but there are {} ranks",
                                 config.ranks(), world.size()));
  if (!world.scoring) throw InternalError("a rank that trains has no lane for scores");
}

}  // namespace

WorkerOutcome train(Rank& world, const Experiment& experiment, const WorkerOptions& options) try {
  const TrainConfig& config = experiment.config;
  check_rank(world, config);

  // The rank, its network and its strategy.
  MeteredRank metered(world);
  Rank& rank = metered.rank();
  std::optional<PipelinePlace> place;
  if (experiment.pipelines) place.emplace(rank, *experiment.pipelines);
  Rank& among = place ? place->equals() : rank;  // those that have the same weights
  ReplicaWindows windows(among.peers);
  const auto learner = open_learner(experiment, rank.rank(), windows, options.turns);
  const double ahead_s = experiment.simulation ? 0 : clock_ahead_s(rank.peers);
  RunState state{StepClock(rank.clock, ahead_s, config.workers),
                 rank.random(purpose_of("compute time"))};
  double stepping_since = 0;
  WatchedReplica replica(
      learner->replica(), [&](Slice, double) { stepping_since = rank.clock.now(); },
      [&](Slice, double) { state.clock.optimised(stepping_since, rank.clock.now()); });
  const Crew crew = crew_of(among, experiment, replica.weights());
  auto strategy = make_strategy(config.strategy, crew, config.own_strategy);
  if (config.audit) strategy = audited(std::move(strategy), crew);
  Trainee trainee{experiment, options, rank, crew, *learner, replica, *strategy};
  if (place) place->show(trainee);

  // Who takes part, what happens when, and what is kept of it.
  const bool in_rounds = experiment.strategy.goes_in_rounds();
  Generation members(rank.peers, config.workers, in_rounds);
  Plan plan = experiment.plan;
  Timetable timetable(rank, experiment, options, plan, state.clock);
  Recorder recorder(rank, experiment, options, plan, state.clock, metered);
  Checkpoints checkpoints(trainee, metered, recorder, timetable);
  Stepper worker(trainee, plan, state, timetable, recorder);

  const auto run = [&] {
    const ProcessFigures used = ProcessProbe().read();
    const double started_s = rank.clock.now();
    const TaskCounts tasks =
        run_loop(trainee, worker, timetable, recorder, checkpoints, members, state);
    // A rank that dies now has done its part: where others can do without it, they do.
    std::set<int> gone;
    std::set<int>* const tolerated = experiment.in_step() ? nullptr : &gone;
    recorder.finish(members.present(), tolerated);
    RankReport report = report_of(trainee, metered, recorder, state);
    if (!experiment.simulation) report.usage = usage_since(used, rank.clock.now() - started_s);
    TrainResult result = finish(trainee, report, timetable, recorder, members, state, tolerated);
    result.tasks_reissued = tasks.reissued;
    result.tasks_dropped = tasks.dropped;
    Profile profile = worker.profile();
    if (const auto rate = coding_rate(config, result)) profile.coding = {*rate};
    return WorkerOutcome{std::move(result), std::move(profile), members.leads()};
  };
  return in_rounds ? run() : naming_servers(crew, replica.weights().count(), run);
} catch (const Error&) {
  throw;
} catch (const std::exception& e) {  // LibTorch's, or the library's
  throw InternalError(fmt::format("rank {}: {}", world.rank(), sentence_of(e)));
}

}  // namespace lockstep
