// One worker process: started, watched by descriptor, and ended together with everything it
// started.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace lockstep {

using Variables = std::vector<std::pair<std::string, std::string>>;

// Our own environment as NAME=VALUE, with `changes` put in place of variables of the same name.
std::vector<std::string> environment_with(const Variables& changes);
bool environment_has(const std::string& name);

// For exec: the texts, then a null pointer.
std::vector<char*> pointers_to(std::vector<std::string>& texts);

std::string signal_text(int signal);  // "SIGTERM (signal 15)"
// How a process ended: "died of signal 9 (SIGKILL)", "ended with exit status 3".
std::string ending_text(int wait_status);
// As a shell counts: the exit status, or 128 + the signal.
int shell_status(int wait_status);

class Child {
 public:
  // Runs argv (argv[0] by PATH; empty: this same program) in a process group of its own, with stdin
  // from /dev/null and with `inherited_fd` open under its own number. UsageError if it can't be
  // started. PR_SET_PDEATHSIG in the child follows the calling thread, which must outlive it.
  Child(const std::vector<std::string>& argv, const std::vector<std::string>& environment,
        int inherited_fd);
  // Kills what still runs.
  ~Child();
  Child(const Child&) = delete;

  int pid() const { return pid_; }
  int pid_fd() const { return pid_fd_; }  // readable once the process has ended
  // Non-blocking ends of its pipes.
  int out_fd() const { return out_fd_; }
  int err_fd() const { return err_fd_; }

  bool running() const { return running_; }
  int wait_status() const { return wait_status_; }  // once it has ended
  // To the whole group. Nothing once it has ended.
  void send(int signal);
  // Asks it to stand still (SIGTSTP) and waits for that, at most so long: it may first have to stop
  // what it started itself. SIGCONT lets it go on.
  void pause(double seconds);
  // If it has ended: takes its status, and kills what it left behind in its group. Never blocks.
  bool reap();

 private:
  int pid_ = -1, pid_fd_ = -1, out_fd_ = -1, err_fd_ = -1;
  bool running_ = true;
  int wait_status_ = 0;
};

}  // namespace lockstep
