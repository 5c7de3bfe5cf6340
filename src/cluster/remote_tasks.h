// The task board of a rank in a process of its own: the book is the coordinator's.
#pragma once

#include "cluster/membership.h"
#include "cluster/tasks.h"

namespace lockstep {

class RemoteTasks final : public TaskBoard {
 public:
  // `membership` outlives this, and has joined.
  explicit RemoteTasks(Membership& membership) : membership_(membership) {}

  void open(std::uint64_t round, const std::vector<std::vector<std::uint32_t>>& tasks,
            const RoundRules&) override;
  RoundState look() override;
  void bury(int rank) override;
  void take_back(int task) override;
  void close() override;
  TaskOffer take() override;
  bool report(const TaskReport&) override;

 private:
  Membership& membership_;
};

}  // namespace lockstep
