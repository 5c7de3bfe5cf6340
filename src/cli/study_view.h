// What people see of a study while it runs: on a terminal one line that moves, else a line a run.
#pragma once

#include "cluster/output.h"
#include "study/runner.h"
#include "train/watcher.h"

namespace lockstep {

class StudyView : public study::RunWatcher, public Watcher {
 public:
  // `out` outlives this.
  explicit StudyView(Output& out);
  ~StudyView() override { out_.say(cleared()); }

  void starts(const study::Run&, std::size_t k, std::size_t n, double left_s) override;
  void ended(const study::Run&, std::size_t k, std::size_t n) override;

  // Of the run that goes on.
  void notice(const std::string&) override {}
  void step(const Progress&) override;
  void score(const Score&, int) override {}

 private:
  void show(const std::string& doing);
  // What takes the progress line away, if one is shown.
  std::string cleared();

  Output& out_;
  const bool terminal_;
  std::string head_, tail_;  // of the line
  double started_ = 0, left_s_ = 0;
  bool line_shown_ = false;
};

}  // namespace lockstep
