// Starts, watches and ends the worker processes of one job on this machine, and serves their
// coordinator. Nothing outlives it: workers end with the launcher (PR_SET_PDEATHSIG, set by Job,
// and the lost control connection), and with them what they started in their process groups.
#pragma once

#include <csignal>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cluster/netns.h"
#include "cluster/output.h"

namespace lockstep {

struct LaunchOptions {
  int workers = 2;
  // argv of each worker; an empty argv[0] (or none) means this same program.
  std::vector<std::string> command;
  // Added to our own environment, which the workers inherit.
  std::vector<std::pair<std::string, std::string>> environment;
  // Set as OMP_NUM_THREADS and OPENBLAS_NUM_THREADS, and printed. 0: what those variables say
  // already, else cores / workers, at least 1.
  int threads_per_worker = 0;
  std::string transport = "auto";     // auto|shm|ucx
  std::optional<NetnsOptions> netns;  // hosts in network namespaces; ranks fill them one by one,
  int guests = 0;                     // but the last so many live with ranks 0, 1, …
  // The job can do without ranks that die: their end is told, and it fails only if another gives up
  // because of it, or if nobody is left.
  bool goes_on = false;
  std::string listen;         // ADDR[:PORT] of the coordinator; empty: 127.0.0.1, a free port
  std::string key_file;       // empty: a fresh random key
  bool prefix_output = true;  // "[3] " before each line
  // Called before the first worker starts, when all that may be refused has been looked at: the
  // key, the address, the namespaces.
  std::function<void()> before_start;
  // Gets each line of a worker's standard output, which is then not printed. Called in wait().
  std::function<void(int rank, std::string_view line)> on_output;
  // Where the launcher and its workers say something: stdout and stderr of this process, by others'
  // or, if there are none, by outputs of its own. They outlive the launch. Nobody waits for their
  // readers but workers whose standard output is printed.
  Output* out = nullptr;
  Output* err = nullptr;
  // After a rank failed, the others have so long to end by themselves before SIGTERM, and then up
  // to 2 s before SIGKILL. After stop(), or a signal to us, they have stop_seconds before SIGKILL.
  double grace_seconds = 5;
  double stop_seconds = 5;
};

class Launch {
 public:
  // Starts them all. From here until wait() returns, SIGINT, SIGTERM and SIGHUP are blocked in this
  // thread and in threads started by it, and end the job instead; SIGTSTP (Ctrl-Z) stops the
  // workers and then this process, and when it goes on they do. The thread must outlive the
  // workers.
  explicit Launch(const LaunchOptions&);
  // Kills workers that still run.
  ~Launch();

  // Passes the workers' output on until all have ended. Returns the worst exit status as a shell
  // counts (128 + signal) of those that were not stopped by us; 128 + signal if we were told to
  // stop. Prints the verdict.
  int wait();
  // After wait(): the signal that told us to stop, or 0. Its number alone does not tell: a worker
  // that somebody killed by SIGTERM failed.
  int told_to_stop() const;
  // After wait().
  bool all_exited_with(int status) const;

  // Ends the job: sends `signal` to all workers, after the grace SIGKILL. From any thread or signal
  // handler.
  void stop(int signal = SIGTERM);

  // "" if all went well, or one sentence: "rank 2 (pid 123 on host h) died of signal 9 (SIGKILL);
  // the others were stopped", or "…; the others went on", with a status of 0. After wait().
  std::string verdict() const;

  int pid(int rank) const;
  std::string address() const;  // HOST:PORT of the coordinator

 private:
  class Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace lockstep
