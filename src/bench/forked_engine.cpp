#include "bench/forked_engine.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "bench/pipes.h"

namespace lockstep::bench {
namespace {

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

}  // namespace lockstep::bench
