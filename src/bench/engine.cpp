#include "bench/engine.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>

namespace lockstep::bench {
namespace {

constexpr double kJoinSeconds = 60;
constexpr double kAnswerSeconds = 600;

// A child that ends no later than this object, and what it writes.
class Child {
 public:
  Child() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw_errno("pipe2");
    std::fflush(nullptr);  // or the child might print what we have printed once more
    pid_ = fork();
    if (pid_ < 0) throw_errno("fork");
    if (pid_ == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
    answers_ = ends[pid_ == 0 ? 1 : 0];
    close(ends[pid_ == 0 ? 0 : 1]);
    if (pid_ != 0) fcntl(answers_, F_SETFL, O_NONBLOCK);
  }
  ~Child() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    close(answers_);
  }
  Child(const Child&) = delete;

  bool inside() const { return pid_ == 0; }
  int answers() const { return answers_; }

 private:
  pid_t pid_;
  int answers_;
};

[[noreturn]] void answer_and_exit(const ForkedEngine::Run& run, const Work& work, int answers) {
  std::string line;
  try {
    line = to_line(run(work));
  } catch (const std::exception& e) {
    line = failure_line(e.what());
  }
  try {
    write_line(answers, line);
  } catch (const Error&) {  // nobody listens any more
  }
  _exit(0);
}

}  // namespace

Result ForkedEngine::measure(const Work& work) try {
  Child child;
  if (child.inside()) answer_and_exit(run_, work, child.answers());
  Lines lines({child.answers()}, interrupt_);
  Result result;
  lines.one_from_each(kAnswerSeconds,
                      [&](int, const std::string& line) { result = result_from(line); });
  return result;
} catch (const InternalError& e) {
  throw InternalError(fmt::format("engine {}: {}", name_, e.what()));
}

PipedEngine::PipedEngine(std::string name, int workers, const std::string& temporary, int interrupt,
                         const Start& start)
    : name_(std::move(name)), folder_(temporary), pipes_(folder_.path(), workers, interrupt) {
  crew_ = start(folder_.path());
  hear(kJoinSeconds);
  folder_.remove();
}

Result PipedEngine::measure(const Work& work) {
  pipes_.tell_all(to_line(work));
  return hear(kAnswerSeconds);
}

Result PipedEngine::hear(double patience_seconds) try {
  std::vector<Result> results;
  pipes_.answers().one_from_each(patience_seconds, [&](int, const std::string& line) {
    results.push_back(result_from(line));
  });
  return join(results);
} catch (const InternalError& e) {
  const auto [sentence, status] = crew_->verdict();
  if (pipes_.answers().interrupted()) throw Interrupted();
  throw CrewFailed(
      fmt::format("engine {}: {}{}{}", name_, e.what(), sentence.empty() ? "" : "; ", sentence),
      std::max(status, 1));
}

void serve(const std::string& pipe_folder, int rank,
           const std::function<std::unique_ptr<Participant>()>& join) {
  std::signal(SIGPIPE, SIG_IGN);  // a bench that has gone is an error from write(), not a death
  WorkerPipe pipe(pipe_folder, rank);
  try {
    const auto me = join();
    pipe.answer(to_line(Result{}));
    while (const auto line = pipe.next()) pipe.answer(to_line(measure(work_from(*line), *me)));
  } catch (const std::exception& e) {
    pipe.answer(failure_line(e.what()));
    throw;
  }
}

}  // namespace lockstep::bench
