// Picks the command and turns errors into one sentence and an exit status: 0 done, 1 failed, 2
// wrong usage, the worst status of processes that failed, 128 + the signal that asked us to stop
// (Ctrl-C: 130).
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <system_error>

#include "bench/engine.h"
#include "bench/pipes.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/interrupt.h"
#include "cli/version.h"
#include "cluster/output.h"
#include "replica/torch_error.h"

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

constexpr const char* kWhatToDo =
    "what to do? train, study, report, bench, list or data: see --help";

int run(std::vector<std::string> arguments) {
  CLI::App application("Lockstep trains deep networks on many workers and measures how.",
                       "lockstep");
  application.require_subcommand(0, 1);
  application.footer(
      "\nExamples:\n  lockstep train\n  lockstep bench allreduce -n 2 -b 4K -e 100M\n  lockstep "
      "list strategies\n  lockstep study studies/averaging.toml --quick");
  const std::unique_ptr<Command> commands[] = {
      add_bench(application),        add_list(application),         add_data(application),
      add_train(application),        add_study(application),        add_report(application),
      add_bench_worker(application), add_train_worker(application), add_completion(application)};
  bool version = false, json = false;
  CLI::Option* asks =
      application.add_flag("--version", version, "Print version, commit and libraries, and exit");
  application.add_flag("--json", json, "With --version: as JSON")->needs(asks);
  try {
    std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the end
    application.parse(arguments);
  } catch (const CLI::Success& help) {
    return application.exit(help);
  } catch (const CLI::RequiredError& e) {
    if (application.remaining(true).empty()) throw UsageError(kWhatToDo);
    throw_usage_error(e, application);
  } catch (const CLI::ParseError& e) {
    throw_usage_error(e, application);
  }
  if (version) return print_version(json), 0;
  for (const auto& command : commands)
    if (command->chosen()) return command->run();
  throw UsageError(kWhatToDo);
}

// What was printed must have been written, or the command has failed: a full disk keeps nothing. A
// reader that left is no failure, it wants no more.
int flushed(int status) {
  errno = 0;
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  const int error = errno;
  pollfd out{STDOUT_FILENO, POLLOUT, 0};
  const bool reader_left = poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
  if (written || reader_left) return status;
  fmt::print(stderr, "lockstep: can't write to stdout{}\n",
             error != 0 ? fmt::format(": {}", std::strerror(error)) : "");
  return status == 0 ? 1 : status;
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
    return lockstep::flushed(lockstep::run(lockstep::arguments_of(argc, argv)));
  } catch (const lockstep::UsageError& e) {
    return fail(e, 2);
  } catch (const lockstep::bench::Interrupted& e) {
    return fail(e, 128 + lockstep::Interrupt::last_signal());
  } catch (const lockstep::bench::CrewFailed& e) {
    return fail(e, e.status());
  } catch (const lockstep::Error& e) {
    return fail(e, 1);
  } catch (const std::system_error& e) {
    if (std::ferror(stdout) == 0) return fail(e, 1);
    return fail(lockstep::InternalError("can't write to stdout: " + e.code().message()), 1);
  } catch (const std::exception& e) {
    return fail(lockstep::InternalError(lockstep::sentence_of(e)), 1);
  }
}
