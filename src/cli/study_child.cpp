#include "cli/study_child.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "cli/train_view.h"
#include "cluster/blocked_signals.h"
#include "cluster/child.h"
#include "cluster/output.h"

namespace lockstep {
namespace {

using study::Ending;
using study::Order;

constexpr std::size_t kMostErrors = 1 << 18;
constexpr double kGraceSeconds = 10;  // to write what there is to write after SIGINT
constexpr double kPauseSeconds = 2;   // to stop its workers after Ctrl-Z

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::vector<std::string> argv_of(const Order& order) {
  std::vector<std::string> argv{""};
  argv.insert(argv.end(), order.words.begin(), order.words.end());
  argv.push_back("--json");
  if (order.words.at(0) != "train") return argv;
  for (const std::string& word : {std::string("--tell"), std::string("--out"), order.folder})
    argv.push_back(word);
  return argv;
}

// Programs say last why they failed.
std::string last_line_of(const std::string& text) {
  const std::size_t end = text.find_last_not_of('\n');
  if (end == std::string::npos) return "";
  const std::size_t before = text.rfind('\n', end);
  const std::string line =
      text.substr(before == std::string::npos ? 0 : before + 1, end - (before + 1) + 1);
  constexpr std::string_view kOurs = "lockstep: ";
  return line.starts_with(kOurs) ? line.substr(kOurs.size()) : line;
}

class RunningChild {
 public:
  RunningChild(const Order& order, Watcher& watcher)
      : child_(argv_of(order), environment_with({}), -1),
        errors_([this, &watcher](std::string_view line) {
          if (!hear(line, watcher) && ending_.err.size() < kMostErrors)
            ending_.err.append(line).append("\n");
        }),
        end_(order.seconds > 0 ? now() + order.seconds : 0) {}

  Ending run(int interrupt) {
    int out = child_.out_fd(), err = child_.err_fd();
    while (!child_.reap()) {
      pollfd events[] = {{child_.pid_fd(), POLLIN, 0},
                         {err, POLLIN, 0},
                         {out, POLLIN, 0},
                         {stopping() ? -1 : interrupt, POLLIN, 0},
                         {pauses_.fd(), POLLIN, 0}};
      poll(events, std::size(events), timeout_ms());
      if (pauses_.take() != 0) pause();
      if (events[3].revents != 0) stop(Ending::Kind::interrupted);
      if (!stopping() && end_ > 0 && now() >= end_) stop(Ending::Kind::out_of_time);
      if (stopping() && now() >= end_) child_.send(SIGKILL);
      if (events[1].revents != 0 && !errors_.read_from(err)) err = -1;
      if (events[2].revents != 0) take(out);
    }
    if (err >= 0) errors_.read_from(err);
    if (out >= 0) take(out);
    errors_.finish();
    ending_.status = shell_status(child_.wait_status());
    if (ending_.status != 0) ending_.reason = why();
    return std::move(ending_);
  }

 private:
  bool stopping() const { return ending_.kind != Ending::Kind::finished; }

  int timeout_ms() const {
    if (end_ <= 0) return -1;
    return static_cast<int>(std::clamp(end_ - now(), 0.0, 1e5) * 1000) + 1;
  }

  void stop(Ending::Kind why) {
    ending_.kind = why;
    end_ = now() + kGraceSeconds;
    child_.send(SIGINT);
  }

  void pause() {
    child_.pause(kPauseSeconds);
    const double paused_at = now();
    raise(SIGSTOP);  // until somebody lets us go on
    if (end_ > 0) end_ += now() - paused_at;
    child_.send(SIGCONT);
  }

  void take(int& out) {
    char buffer[65536];
    ssize_t got = 0;
    while ((got = read(out, buffer, sizeof buffer)) > 0)
      ending_.out.append(buffer, static_cast<std::size_t>(got));
    if (got == 0) out = -1;
  }

  std::string why() const {
    const std::string said = last_line_of(ending_.err);
    return said.empty() ? ending_text(child_.wait_status()) : said;
  }

  Ending ending_;
  BlockedSignals pauses_{{SIGTSTP}};
  Child child_;
  LinePrinter errors_;
  double end_;  // when its time is over, or its grace; 0: never
};

}  // namespace

Ending run_child(const Order& order, int interrupt, Watcher& watcher) {
  return RunningChild(order, watcher).run(interrupt);
}

}  // namespace lockstep
