#include "cli/worker_command.h"

#include <optional>

#include "bench/piped_engine.h"
#include "cli/core_binding.h"
#include "cli/environment.h"
#include "cli/our_participant.h"
#include "cluster/job.h"
#include "cluster/start.h"

namespace lockstep {
WorkerCommand::WorkerCommand(CLI::App& application)
    : command_(application.add_subcommand("bench-worker", "One rank of `lockstep bench`")) {
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

}  // namespace lockstep
