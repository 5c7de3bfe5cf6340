// What people see of a study while it runs: on a terminal one line that moves, else a line a run.
#pragma once

#include <cstdio>

#include "study/runner.h"
#include "train/watcher.h"

namespace lockstep {

class StudyView : public study::RunWatcher, public Watcher {
 public:
  explicit StudyView(std::FILE* out);
  ~StudyView() override { clear(); }

  void starts(const study::Run&, std::size_t k, std::size_t n, double left_s) override;
  void ended(const study::Run&, std::size_t k, std::size_t n) override;

  // Of the run that goes on.
  void notice(const std::string&) override {}
  void step(const Progress&) override;
  void score(const Score&, int) override {}

 private:
  void show(const std::string& doing);
  void clear();

  std::FILE* const out_;
  const bool terminal_;
  std::string head_, tail_;  // of the line
  double started_ = 0, left_s_ = 0;
  bool line_shown_ = false;
};

}  // namespace lockstep
