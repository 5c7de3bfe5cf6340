#include "cluster/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "core/error.h"

extern char** environ;

namespace lockstep {

namespace {

// Close-on-exec at both ends, non-blocking where we read.
struct Pipe {
  int read_end, write_end;
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw_errno("pipe for a worker's output");
    read_end = ends[0];
    write_end = ends[1];
    fcntl(read_end, F_SETFL, O_NONBLOCK);
  }
};

struct SpawnActions {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;

  SpawnActions(int out, int err, int inherited_fd) {
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, out, 1);
    posix_spawn_file_actions_adddup2(&files, err, 2);
    // Onto itself: that takes close-on-exec off.
    if (inherited_fd >= 0) posix_spawn_file_actions_adddup2(&files, inherited_fd, inherited_fd);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(
        &attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attributes, 0);
    sigset_t none, ended_by;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes, &none);
    sigemptyset(&ended_by);
    for (int signal : {SIGINT, SIGTERM, SIGPIPE}) sigaddset(&ended_by, signal);
    posix_spawnattr_setsigdefault(&attributes, &ended_by);
  }
  ~SpawnActions() {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  }
};

}  // namespace

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (auto& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

bool environment_has(const std::string& name) {
  for (char** variable = environ; *variable; ++variable)
    if (std::string_view(*variable).starts_with(name + "=")) return true;
  return false;
}

std::vector<std::string> environment_with(const Variables& changes) {
  std::vector<std::string> all;
  for (char** variable = environ; *variable; ++variable) {
    const std::string text = *variable;
    const std::string name = text.substr(0, text.find('='));
    if (std::none_of(changes.begin(), changes.end(), [&](auto& c) { return c.first == name; }))
      all.push_back(text);
  }
  for (const auto& [name, value] : changes) all.push_back(name + "=" + value);
  return all;
}

std::string signal_text(int signal) {
  return fmt::format("SIG{} (signal {})", sigabbrev_np(signal) ? sigabbrev_np(signal) : "?",
                     signal);
}

std::string ending_text(int status) {
  if (!WIFSIGNALED(status)) return fmt::format("ended with exit status {}", WEXITSTATUS(status));
  const char* name = sigabbrev_np(WTERMSIG(status));
  return name ? fmt::format("died of signal {} (SIG{})", WTERMSIG(status), name)
              : fmt::format("died of signal {}", WTERMSIG(status));
}

int shell_status(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

Child::Child(const std::vector<std::string>& argv, const std::vector<std::string>& environment,
             int inherited_fd) {
  auto arguments = argv;
  auto variables = environment;
  if (arguments.empty()) arguments.emplace_back();
  // Also where the file was replaced since, /proc/self/exe is what runs here; the name is for
  // people.
  const std::string file = arguments[0].empty() ? "/proc/self/exe" : arguments[0];
  if (arguments[0].empty()) arguments[0] = std::filesystem::read_symlink(file);
  const Pipe out, err;
  out_fd_ = out.read_end;
  err_fd_ = err.read_end;
  const SpawnActions actions(out.write_end, err.write_end, inherited_fd);
  const int error = posix_spawnp(&pid_, file.c_str(), &actions.files, &actions.attributes,
                                 pointers_to(arguments).data(), pointers_to(variables).data());
  close(out.write_end);
  close(err.write_end);
  if (error == 0) pid_fd_ = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
  if (pid_fd_ >= 0) return;
  close(out_fd_);
  close(err_fd_);
  if (error != 0) throw UsageError(fmt::format("cannot start {}: {}", file, strerror(error)));
  kill(-pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  throw_errno("pidfd_open (this needs Linux 5.3 or newer)");
}

Child::~Child() {
  if (running_) {
    send(SIGKILL);
    pollfd ended{pid_fd_, POLLIN, 0};
    while (!reap()) poll(&ended, 1, 1000);
  }
  close(pid_fd_);
  close(out_fd_);
  close(err_fd_);
}

void Child::send(int signal) {
  if (running_) kill(-pid_, signal);
}

void Child::pause(double seconds) {
  constexpr int kLookMs = 10;
  send(SIGTSTP);
  siginfo_t info{};
  for (double waited = 0; waited < seconds && info.si_pid == 0; waited += 1e-3 * kLookMs) {
    pollfd ended{pid_fd_, POLLIN, 0};
    if (waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED | WNOHANG) != 0 ||
        poll(&ended, 1, kLookMs) != 0)
      return;
  }
}

bool Child::reap() {
  siginfo_t info{};
  if (!running_) return true;
  // First only look: while its zombie keeps the number, the group's name can't be anybody else's.
  if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid == 0)
    return false;
  kill(-pid_, SIGKILL);
  waitpid(pid_, &wait_status_, 0);
  running_ = false;
  return true;
}

}  // namespace lockstep
