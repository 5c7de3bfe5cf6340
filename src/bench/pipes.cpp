#include "bench/pipes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace lockstep::bench {
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
