#include "cli/run_program.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "bench/pipes.h"
#include "cluster/child.h"
#include "core/error.h"

namespace lockstep {
namespace {

constexpr std::size_t kMostKept = 4096;

// Turns the descriptor into -1, which poll() passes over, once there will be no more.
void take_what_is_there(int& descriptor, std::string& kept) {
  char buffer[4096];
  ssize_t got = 0;
  while ((got = read(descriptor, buffer, sizeof buffer)) > 0)
    kept.append(buffer, std::min(static_cast<std::size_t>(got), kMostKept - kept.size()));
  if (got == 0) descriptor = -1;
}

// The first two lines, which is where programs say what is wrong.
std::string opening_of(std::string text) {
  std::string line, opening;
  for (int i = 0; i < 2 && bench::take_line(text, line); ++i)
    opening += (opening.empty() ? ": " : "; ") + line;
  return opening;
}

}  // namespace

void run_program(const std::vector<std::string>& words, double seconds, int interrupt) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  Child child(words, environment_with({}), -1);
  int out_fd = child.out_fd(), err_fd = child.err_fd();
  std::string out, err;
  while (!child.reap()) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    if (left.count() <= 0)
      throw InternalError(fmt::format("{} took longer than {} s", words[0], seconds));
    pollfd events[] = {{child.pid_fd(), POLLIN, 0},
                       {err_fd, POLLIN, 0},
                       {out_fd, POLLIN, 0},
                       {interrupt, POLLIN, 0}};
    poll(events, std::size(events), static_cast<int>(left.count()));
    if (events[3].revents != 0) throw bench::Interrupted();
    take_what_is_there(err_fd, err);
    take_what_is_there(out_fd, out);
  }
  take_what_is_there(err_fd, err);
  if (child.wait_status() != 0)
    throw InternalError(
        fmt::format("{} {}{}", words[0], ending_text(child.wait_status()), opening_of(err)));
}

}  // namespace lockstep
