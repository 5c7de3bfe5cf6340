// lockstep bench-worker --pipes FOLDER: one rank of our own engine. Started by `bench`, not by
// people.
#include <optional>

#include "bench/piped_engine.h"
#include "cli/bench_participant.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cluster/job.h"
#include "cluster/start.h"
#include "measure/machine.h"

namespace lockstep {
namespace {

class WorkerCommand : public Command {
 public:
  explicit WorkerCommand(CLI::App& application);
  int run() const override;

 private:
  std::string pipes_;
};

WorkerCommand::WorkerCommand(CLI::App& application)
    : Command(application.add_subcommand("bench-worker", "One rank of `lockstep bench`")) {
  command_->add_option("--pipes", pipes_)->required();
  command_->group("");  // not in --help
}

int WorkerCommand::run() const {
  const auto start = start_from(environment_with({}));
  if (!start) throw UsageError("bench-worker is started by lockstep bench, not by hand");
  bind_to_core(start->rank, start->size);
  std::optional<Job> job;
  try {
    bench::serve(pipes_, start->rank, [&] {
      job.emplace(*start);
      return std::make_unique<bench::OurParticipant>(job->rank(),
                                                     bench::OurParticipant::World::real);
    });
  } catch (const std::exception& e) {
    if (job) job->fail(e);
    throw;
  }
  job->leave();
  return 0;
}

}  // namespace

std::unique_ptr<Command> add_bench_worker(CLI::App& application) {
  return std::make_unique<WorkerCommand>(application);
}

}  // namespace lockstep
