// Picks the command and turns errors into one sentence and an exit status: 0 done, 1 failed, 2
// wrong usage, the worst status of processes that failed, 128 + the signal that asked us to stop
// (Ctrl-C: 130).
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>

#include "bench/lines.h"
#include "bench/piped_engine.h"
#include "cli/bench_command.h"
#include "cli/data_command.h"
#include "cli/flags.h"
#include "cli/interrupt.h"
#include "cli/list_command.h"
#include "cli/report_command.h"
#include "cli/study_command.h"
#include "cli/train_command.h"
#include "cli/worker_command.h"
#include "cluster/output.h"

namespace lockstep {
namespace {

// UCX catches SIGHUP when it is loaded, and then it can't be told any more that nohup(1) had asked
// to ignore it. So that is looked at before libraries are initialised.
bool ignores_hangups = false;
void look_at_hangups(int, char**, char**) {
  struct sigaction before {};
  ignores_hangups = sigaction(SIGHUP, nullptr, &before) == 0 && before.sa_handler == SIG_IGN;
}
[[gnu::section(".preinit_array"), gnu::used]] void (*before_libraries)(int, char**,
                                                                       char**) = look_at_hangups;

int run(std::vector<std::string> arguments) {
  CLI::App application("Lockstep trains deep networks on many workers and measures how.",
                       "lockstep");
  application.require_subcommand(1);
  application.footer(
      "\nExamples:\n  lockstep train\n  lockstep bench allreduce -n 2 -b 4K -e 100M\n  lockstep "
      "list strategies\n  lockstep study studies/averaging.toml --quick");
  const BenchCommand bench(application);
  const ListCommand list(application);
  const DataCommand data(application);
  const TrainCommand train(application);
  const StudyCommand study(application);
  const ReportCommand report(application);
  const WorkerCommand bench_worker(application);
  const TrainWorkerCommand train_worker(application);
  try {
    std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the end
    application.parse(arguments);
  } catch (const CLI::Success& help) {
    return application.exit(help);
  } catch (const CLI::RequiredError&) {
    throw UsageError("what to do? train, study, report, bench, list or data: see --help");
  } catch (const CLI::ParseError& e) {
    throw UsageError(e.what());
  }
  if (train.chosen()) return train.run();
  if (study.chosen()) return study.run();
  if (report.chosen()) return report.run();
  if (data.chosen()) return data.run();
  if (train_worker.chosen()) return train_worker.run();
  if (bench_worker.chosen()) return bench_worker.run();
  return bench.chosen() ? bench.run() : list.run();
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  // Where stdin, stdout or stderr is closed no file that is opened may get its number.
  int file = 0;
  while (file >= 0 && file <= STDERR_FILENO) file = open("/dev/null", O_RDWR);
  if (file >= 0) close(file);
  // A reader of our output that leaves is no reason to end: what is written then is lost.
  std::signal(SIGPIPE, SIG_IGN);
  // UCX catches these when it is loaded: its handler can wait for ever for a lock that the crashed
  // thread holds, and a terminal that closes would end nothing.
  for (const int signal : {SIGILL, SIGBUS, SIGFPE, SIGSEGV}) std::signal(signal, SIG_DFL);
  std::signal(SIGHUP, lockstep::ignores_hangups ? SIG_IGN : SIG_DFL);
  const auto fail = [](const std::exception& e, int status) {
    lockstep::Output err(STDERR_FILENO);
    // One that was told to stop does not wait for a reader that stalls.
    if (lockstep::Interrupt::last_signal() != 0) err.hurry(0.5);
    err.say(fmt::format("lockstep: {}\n", e.what()));
    return status;
  };
  try {
    return lockstep::run(lockstep::arguments_of(argc, argv));
  } catch (const lockstep::UsageError& e) {
    return fail(e, 2);
  } catch (const lockstep::bench::Interrupted& e) {
    return fail(e, 128 + lockstep::Interrupt::last_signal());
  } catch (const lockstep::bench::CrewFailed& e) {
    return fail(e, e.status());
  } catch (const std::exception& e) {
    return fail(e, 1);
  }
}
