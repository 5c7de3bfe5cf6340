// The built program while it runs: its output is a pipe that a test reads, leaves or lets stall.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace lockstep {

class Running {
 public:
  // Its stderr goes to the file `errors`, or, if that is empty, to the pipe of its stdout; with
  // `small_pipe` that holds a page. `before`: words ahead of the program, such as "nohup".
  Running(const std::string& arguments, std::string errors, bool small_pipe = false,
          std::vector<std::string> before = {})
      : errors_(std::move(errors)) {
    std::istringstream in(arguments);
    std::vector<std::string> words = std::move(before);
    words.emplace_back(LOCKSTEP_PROGRAM);
    for (std::string word; in >> word;) words.push_back(word);
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    if (small_pipe) fcntl(ends[0], F_SETPIPE_SZ, 4096);
    out_ = ends[0];
    pid_ = fork();
    if (pid_ == 0) {
      dup2(ends[1], STDOUT_FILENO);
      dup2(errors_.empty() ? ends[1] : open(errors_.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600),
           STDERR_FILENO);
      execvp(argv[0], argv.data());
      _exit(127);
    }
    close(ends[1]);
  }
  ~Running() {
    stop_reading();
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }
  Running(const Running&) = delete;

  void send(int signal) const { kill(pid_, signal); }
  std::string read_line() {
    std::string line;
    for (char byte = 0; byte != '\n' && read(out_, &byte, 1) == 1;) line += byte;
    return line;
  }
  std::string read_rest() {
    std::string text;
    char buffer[4096];
    for (ssize_t got = 0; (got = read(out_, buffer, sizeof buffer)) > 0;)
      text.append(buffer, static_cast<std::size_t>(got));
    return text;
  }
  // Until not a byte more fits into the pipe, as if it had said so much itself.
  void fill_pipe() const {
    const std::string name = "/proc/self/fd/" + std::to_string(out_);
    const int into = open(name.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    while (write(into, "x", 1) == 1) {
    }
    close(into);
  }
  void stop_reading() {
    if (out_ >= 0) close(out_);
    out_ = -1;
  }
  // Its exit status as a shell counts; -1 if it still runs after so many seconds.
  int wait(double seconds = 60) {
    for (double waited = 0; waited < seconds; waited += 0.01) {
      int status = 0;
      if (waitpid(pid_, &status, WNOHANG) == pid_) {
        pid_ = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      }
      poll(nullptr, 0, 10);
    }
    return -1;
  }
  pid_t pid() const { return pid_; }
  // What it has started and not yet seen end.
  std::vector<pid_t> children() const {
    std::vector<pid_t> all;
    const std::string tasks = "/proc/" + std::to_string(pid_) + "/task";
    for (const auto& task : std::filesystem::directory_iterator(tasks)) {
      std::ifstream children(task.path() / "children");
      for (pid_t child = 0; children >> child;) all.push_back(child);
    }
    return all;
  }
  std::string errors() const {
    std::ifstream in(errors_);
    return {std::istreambuf_iterator(in), {}};
  }

 private:
  const std::string errors_;
  pid_t pid_ = -1;
  int out_ = -1;
};

}  // namespace lockstep
