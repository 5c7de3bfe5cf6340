#include "cli/spawned.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "cluster/child.h"

namespace lockstep {
namespace {

constexpr double kLeaveSeconds = 0.5;    // to see that the bench has gone
constexpr double kTerminateSeconds = 3;  // to act on SIGTERM
constexpr double kVerdictSeconds = 5;    // to notice a death and end the others

// Signals as a new process expects them, a group of its own, no input, output to stderr.
struct Attributes {
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_t files;
  Attributes() {
    posix_spawnattr_init(&attributes);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setpgroup(&attributes, 0);
    const int flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP;
    posix_spawnattr_setflags(&attributes, static_cast<short>(flags));
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
  }
  ~Attributes() {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  }
};

}  // namespace

Spawned::Spawned(std::vector<std::string> words) : program_(words.at(0)) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const Attributes how;
  const int error =
      posix_spawnp(&pid_, program_.c_str(), &how.files, &how.attributes, pointers.data(), environ);
  if (error != 0)
    throw InternalError(fmt::format("can't start {}: {}", program_, std::strerror(error)));
  handle_ = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
}

Spawned::~Spawned() {
  if (!ended_within(kLeaveSeconds)) {
    kill(-pid_, SIGTERM);
    if (!ended_within(kTerminateSeconds)) kill(-pid_, SIGKILL);
  }
  ended_within(kTerminateSeconds);
  close(handle_);
}

bool Spawned::ended_within(double seconds) {
  pollfd handle{handle_, POLLIN, 0};
  if (!ended_ && poll(&handle, 1, static_cast<int>(seconds * 1000)) == 1)
    ended_ = waitpid(pid_, &status_, 0) == pid_;
  return ended_;
}

bench::Verdict Spawned::verdict() {
  if (!ended_within(kVerdictSeconds) || status_ == 0) return {};
  return {fmt::format("{} {}", program_, ending_text(status_)), shell_status(status_)};
}

}  // namespace lockstep
