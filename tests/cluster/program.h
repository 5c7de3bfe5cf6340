// A program run by a test: its output is collected, and it is gone when the test is.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>
#include <vector>

#include "cluster/child.h"
#include "cluster/sockets.h"

namespace lockstep {

class Program {
 public:
  explicit Program(const std::vector<std::string>& argv, const Variables& variables = {})
      : child_(argv, environment_with(variables), -1) {}

  int pid() const { return child_.pid(); }
  void send(int signal) { kill(child_.pid(), signal); }
  const std::string& out() const { return out_; }
  const std::string& err() const { return err_; }

  // Until it has ended: its status as a shell counts, or -1 after so long.
  int wait(double seconds = 120) {
    if (!read_until([&] { return child_.reap(); }, seconds)) return -1;
    read_some();
    return shell_status(child_.wait_status());
  }
  // Until `text` appeared on stdout `times` times.
  bool says(const std::string& text, int times = 1, double seconds = 120) {
    return read_until([&] { return count(text) >= times; }, seconds);
  }
  // How often it appeared on stdout so far.
  int count(const std::string& text) const {
    int count = 0;
    for (auto at = out_.find(text); at != std::string::npos; at = out_.find(text, at + 1)) ++count;
    return count;
  }
  // What follows `text` on stdout, up to a space or the line's end.
  std::string word_after(const std::string& text) const {
    const auto at = out_.find(text) + text.size();
    return out_.substr(at, out_.find_first_of(" \n", at) - at);
  }
  // The numbers after "pid " on stdout.
  std::vector<int> pids() const {
    std::vector<int> all;
    for (auto at = out_.find("pid "); at != std::string::npos; at = out_.find("pid ", at + 1))
      all.push_back(std::stoi(out_.substr(at + 4)));
    return all;
  }

 private:
  template <class Condition>
  bool read_until(Condition condition, double seconds) {
    return eventually([&] { return read_some(), condition(); }, seconds);
  }
  void read_some() {
    char bytes[4096];
    for (auto [fd, text] : {std::pair(child_.out_fd(), &out_), std::pair(child_.err_fd(), &err_)})
      for (ssize_t n; (n = read(fd, bytes, sizeof bytes)) > 0;)
        text->append(bytes, static_cast<std::size_t>(n));
  }

  Child child_;
  std::string out_, err_;
};

// What the kernel says of a process: R, S, T (stopped), Z (a zombie)…; X if there is none.
inline char state_of(int pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(stat, line)) return 'X';
  const auto state = line.rfind(") ");
  return state == std::string::npos ? 'X' : line[state + 2];
}

// Does a process of this number run? A zombie that nobody has waited for yet does not.
inline bool runs(int pid) { return state_of(pid) != 'Z' && state_of(pid) != 'X'; }

}  // namespace lockstep
