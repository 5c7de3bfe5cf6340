#include "bench/pipes.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "core/whole_file.h"

namespace lockstep::bench {

Lines::Lines(std::vector<int> sources, int interrupt)
    : sources_(std::move(sources)), interrupt_(interrupt), heard_(sources_.size()) {}

void Lines::read_some(int source) {
  char buffer[65536];
  const ssize_t got = read(sources_[source], buffer, sizeof buffer);
  if (got > 0) heard_[source].append(buffer, static_cast<std::size_t>(got));
  if (got == 0) throw InternalError(fmt::format("rank {} ended without an answer", source));
  if (got < 0 && errno != EAGAIN && errno != EINTR) throw_errno("read a bench pipe");
}

void Lines::one_from_each(double patience_seconds, const Take& take) {
  using Clock = std::chrono::steady_clock;
  constexpr int kLookMs = 500;
  double left_ms = 1000 * patience_seconds;
  auto looked_at = Clock::now();
  std::vector<bool> done(sources_.size());
  for (std::string line;;) {
    std::vector<pollfd> open{{interrupt_, POLLIN, 0}};
    std::vector<int> waiting;
    for (int s = 0; s < static_cast<int>(sources_.size()); ++s) {
      if (!done[s] && take_line(heard_[s], line)) {
        done[s] = true;
        take(s, line);
      }
      if (done[s]) continue;
      open.push_back({sources_[s], POLLIN, 0});
      waiting.push_back(s);
    }
    if (waiting.empty()) return;
    // While we stand still, as by Ctrl-Z, nobody is late: no look takes longer than two do.
    const auto now = Clock::now();
    const std::chrono::duration<double, std::milli> passed = now - std::exchange(looked_at, now);
    left_ms -= std::min(passed.count(), 2.0 * kLookMs);
    if (left_ms <= 0)
      throw InternalError(
          fmt::format("rank {} was silent for {:.0f} s", waiting[0], patience_seconds));
    poll(open.data(), open.size(), std::min(static_cast<int>(left_ms) + 1, kLookMs));
    if (open[0].revents != 0) throw Interrupted();
    for (std::size_t i = 0; i < waiting.size(); ++i)
      if (open[i + 1].revents != 0) read_some(waiting[i]);
  }
}

bool Lines::interrupted() const {
  pollfd interrupt{interrupt_, POLLIN, 0};
  return poll(&interrupt, 1, 0) == 1;
}

void write_line(int descriptor, const std::string& line) {
  const std::string text = line + "\n";
  write_all(descriptor, {text.data(), text.size()}, "write to a bench pipe");
}

bool take_line(std::string& text, std::string& line) {
  const std::size_t end = text.find('\n');
  if (end == std::string::npos) return false;
  line = text.substr(0, end);
  text.erase(0, end + 1);
  return true;
}

namespace {

std::string commands_of(const std::string& folder, int rank) {
  return fmt::format("{}/commands-{}", folder, rank);
}
std::string answers_of(const std::string& folder, int rank) {
  return fmt::format("{}/answers-{}", folder, rank);
}

int open_pipe(const std::string& path, int flags) {
  const int fd = open(path.c_str(), flags | O_CLOEXEC);
  if (fd < 0) throw_errno("open " + path);
  return fd;
}

int make_pipe(const std::string& path, int flags) {
  if (mkfifo(path.c_str(), 0600) != 0) throw_errno("mkfifo " + path);
  return open_pipe(path, flags);
}

std::string make_folder(const std::string& parent) {
  std::string path = parent + "/lockstep-bench-XXXXXX";
  if (mkdtemp(path.data()) == nullptr)
    throw UsageError(
        fmt::format("can't make a folder for the bench's pipes in '{}': {}; set TMPDIR to a "
                    "folder you can write to",
                    parent, std::strerror(errno)));
  return path;
}

}  // namespace

PrivateFolder::PrivateFolder(const std::string& parent) : path_(make_folder(parent)) {}

void PrivateFolder::remove() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

BenchPipes::BenchPipes(const std::string& folder, int workers, int interrupt) {
  for (int rank = 0; rank < workers; ++rank) {
    // Commands are open for both here, so that neither side's open() waits for the other.
    commands_.push_back(make_pipe(commands_of(folder, rank), O_RDWR));
    answers_.push_back(make_pipe(answers_of(folder, rank), O_RDONLY | O_NONBLOCK));
  }
  lines_.emplace(answers_, interrupt);
}

BenchPipes::~BenchPipes() {
  for (int fd : commands_) close(fd);
  for (int fd : answers_) close(fd);
}

void BenchPipes::tell_all(const std::string& line) {
  for (int fd : commands_) write_line(fd, line);
}

WorkerPipe::WorkerPipe(const std::string& folder, int rank)
    : commands_(open_pipe(commands_of(folder, rank), O_RDONLY)),
      answers_(open_pipe(answers_of(folder, rank), O_WRONLY)) {}

WorkerPipe::~WorkerPipe() {
  close(commands_);
  close(answers_);
}

std::optional<std::string> WorkerPipe::next() {
  for (std::string line;;) {
    if (take_line(heard_, line)) return line;
    char buffer[4096];
    const ssize_t got = read(commands_, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_errno("read a bench pipe");
    if (got == 0) return std::nullopt;
    heard_.append(buffer, static_cast<std::size_t>(got));
  }
}

}  // namespace lockstep::bench
