// The task board of a rank that shares a process with all others, as a thread or in simulation, and
// so the book, too.
#pragma once

#include "cluster/task_book.h"
#include "transport/rank.h"

namespace lockstep {

class SharedTasks final : public TaskBoard {
 public:
  // `call_s`: what a call to the coordinator takes in virtual time. Book and rank outlive this.
  SharedTasks(TaskBook& book, Rank& rank, double call_s)
      : book_(book), rank_(rank.rank()), clock_(rank.clock), call_s_(call_s) {}

  void open(std::uint64_t round, const std::vector<std::vector<std::uint32_t>>& tasks,
            const RoundRules&) override;
  RoundState look() override;
  void bury(int rank) override;
  void take_back(int task) override;
  void close() override;
  TaskOffer take() override;
  bool report(const TaskReport&) override;

 private:
  TaskBook& book_;
  const int rank_;
  Clock& clock_;
  const double call_s_;
};

}  // namespace lockstep
