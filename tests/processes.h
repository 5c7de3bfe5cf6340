// Ranks as real processes, without a launcher: forked from the test, so that they can be killed.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <thread>
#include <vector>

namespace lockstep::testing {

// Forks `ranks` children that run `body` and end with its result; kills and reaps what is left.
class Processes {
 public:
  Processes(int ranks, const std::function<int(int rank)>& body) : status_(ranks, -1) {
    for (int r = 0; r < ranks; ++r) {
      const pid_t pid = fork();
      if (pid == 0) _exit(body(r));
      pids_.push_back(pid);
    }
  }
  ~Processes() {
    for (std::size_t r = 0; r < pids_.size(); ++r)
      if (status_[r] < 0) {
        ::kill(pids_[r], SIGKILL);
        waitpid(pids_[r], nullptr, 0);
      }
  }
  Processes(const Processes&) = delete;

  void kill(int rank) { ::kill(pids_[rank], SIGKILL); }

  // Until all have ended, or the time is over. True: all have.
  bool wait(double seconds) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    for (std::size_t r = 0; r < pids_.size(); ++r)
      while (status_[r] < 0) {
        if (waitpid(pids_[r], &status_[r], WNOHANG) == pids_[r]) break;
        status_[r] = -1;
        if (std::chrono::steady_clock::now() > end) return false;
        std::this_thread::yield();
      }
    return true;
  }
  // The body's result; -1 if it died of a signal or still runs.
  int result(int rank) const {
    return status_[rank] >= 0 && WIFEXITED(status_[rank]) ? WEXITSTATUS(status_[rank]) : -1;
  }

 private:
  std::vector<pid_t> pids_;
  std::vector<int> status_;
};

}  // namespace lockstep::testing
