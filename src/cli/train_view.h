// What people see of a training while it runs and when it is done: on a terminal one line that
// moves, else plain lines; with --json all of it on stderr.
#pragma once

#include <atomic>
#include <mutex>
#include <set>

#include "cluster/output.h"
#include "train/result.h"

namespace lockstep {

class TrainView : public Watcher {
 public:
  // `epochs`: in all, for "epoch 2 of 5"; 0: unknown. `tells`: steps are told to a program that
  // hear()s them. `out` outlives this.
  TrainView(Output& out, std::uint64_t epochs, bool tells);
  ~TrainView() override;

  // From any thread. The same sentence, of several ranks, is said once.
  void notice(const std::string& sentence) override;
  void step(const Progress&) override;
  void score(const Score&, int epoch) override;
  // The summary of a run in a few lines, as docs/formats.md describes it.
  void summary(const nlohmann::ordered_json& summary, const std::string& folder);

 private:
  // What takes the progress line away, if one is shown.
  std::string cleared();

  Output& out_;
  const std::uint64_t epochs_;
  const bool tells_, terminal_;
  std::atomic<bool> line_shown_ = false;
  double shown_at_ = 0;
  std::mutex saying_;
  std::set<std::string> said_;
};

// A watcher in a worker process: tells its launcher, line by line on stdout, and never waits for
// it: a launcher that was stopped stops no training.
class TellingWatcher : public Watcher {
 public:
  TellingWatcher();
  void notice(const std::string& sentence) override;
  void step(const Progress&) override;
  void score(const Score&, int epoch) override;

 private:
  Output out_;
  double told_at_ = 0;
};
// Passes on what a TellingWatcher, or a view that tells, told. False: it was some other line.
bool hear(std::string_view line, Watcher&);

}  // namespace lockstep
