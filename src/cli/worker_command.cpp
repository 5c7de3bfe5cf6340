#include "cli/worker_command.h"

#include <sched.h>

#include <optional>

#include "bench/serve.h"
#include "cli/environment.h"
#include "cli/our_participant.h"
#include "cluster/job.h"
#include "cluster/start.h"

namespace lockstep {
namespace {

// As mpirun does for its ranks: where each can have a core of its own, it stays there. Else two
// that meet every microsecond may share one for a whole measurement.
void bind_to_core(int rank, int ranks) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || ranks > CPU_COUNT(&allowed)) return;
  for (int core = 0, left = rank; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &allowed) || left-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

}  // namespace

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
