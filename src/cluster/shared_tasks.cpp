#include "cluster/shared_tasks.h"

namespace lockstep {

void SharedTasks::open(std::uint64_t round, const std::vector<std::vector<std::uint32_t>>& tasks,
                       const RoundRules& rules) {
  clock_.charge(call_s_);
  book_.prepare(rank_, round, static_cast<int>(tasks.size()), rules);
  for (std::size_t k = 0; k < tasks.size(); ++k) book_.add(rank_, static_cast<int>(k), tasks[k]);
  book_.begin(rank_, clock_.now());
}

RoundState SharedTasks::look() {
  clock_.charge(call_s_);
  return book_.look(rank_, clock_.now());
}

void SharedTasks::bury(int rank) {
  clock_.charge(call_s_);
  book_.bury(rank);
}

void SharedTasks::take_back(int task) {
  clock_.charge(call_s_);
  book_.take_back(rank_, task, clock_.now());
}

void SharedTasks::close() {
  clock_.charge(call_s_);
  book_.close(rank_);
}

TaskOffer SharedTasks::take() {
  for (;;) {
    clock_.charge(call_s_);
    const TaskBook::Handed handed = book_.take(rank_, clock_.now());
    if (handed.kind != TaskOffer::Kind::task) return {handed.kind, {}};
    std::vector<std::uint32_t> indices = book_.page(handed.round, handed.task, 0, handed.count);
    if (indices.size() == handed.count)  // else the round was over in between
      return {handed.kind, {handed.round, handed.task, std::move(indices)}};
  }
}

bool SharedTasks::report(const TaskReport& report) {
  clock_.charge(call_s_);
  return book_.report(rank_, report);
}

}  // namespace lockstep
