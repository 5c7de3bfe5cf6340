// A worker as the launcher sees it: its process, where it runs, and its output on the way to ours.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <string>

#include "cluster/child.h"
#include "cluster/line_printer.h"

namespace lockstep {

struct Worker {
  // `listener`: for its standard output, if anybody listens; else that is printed to `to_out`.
  Worker(int rank, std::string host, const std::string& prefix, LinePrinter::Listener listener,
         Output& to_out, Output& to_err, const std::vector<std::string>& argv,
         const std::vector<std::string>& environment, int key_fd)
      : rank(rank),
        host(std::move(host)),
        child(argv, environment, key_fd),
        out(listener ? LinePrinter(std::move(listener)) : LinePrinter(to_out, prefix)),
        err(to_err, prefix) {}

  int rank;
  std::string host;
  Child child;
  LinePrinter out, err;
  bool out_open = true, err_open = true;
  bool stopped_by_us = false;  // we had sent it a signal before it ended
  double lost_at = 1e300;      // when the others were seen to go on without it

  std::string name() const {
    return fmt::format("rank {} (pid {} on host {})", rank, child.pid(), host);
  }
};

}  // namespace lockstep
