// A process can run one simulation, so each simulated case has a process of its own.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <string>

#include "core/error.h"
#include "recorded.h"

namespace lockstep::golden {

// The line that `run` returns in a child process; one that says `failed` where the child died.
inline Line in_a_process(const std::string& name, const std::function<Line()>& run) {
  int ends[2];
  if (pipe(ends) != 0) throw_errno("pipe");
  std::fflush(nullptr);  // or the child says it again
  const pid_t child = fork();
  if (child < 0) throw_errno("fork");
  if (child == 0) {
    const std::string text = to_text(run());
    for (std::size_t done = 0; done < text.size();) {
      const ssize_t more = write(ends[1], text.data() + done, text.size() - done);
      if (more <= 0) _exit(1);
      done += static_cast<std::size_t>(more);
    }
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char some[4096];
  for (ssize_t n; (n = read(ends[0], some, sizeof some)) > 0;)
    text.append(some, static_cast<std::size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (status == 0) return line_from(text);
  return {name, {{"failed", fmt::format("its process ended with status {}", status)}}};
}

}  // namespace lockstep::golden
