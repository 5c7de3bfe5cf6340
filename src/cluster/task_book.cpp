#include "cluster/task_book.h"

#include <algorithm>

#include "core/error.h"

namespace lockstep {

using Kind = TaskState::Kind;

void TaskBook::manage(int manager) {
  if (manager_ < 0) manager_ = manager;
  if (manager != manager_)
    throw UsageError(fmt::format("rank {} manages the rounds of this job: rank {} can't as well",
                                 manager_, manager));
}

TaskBook::Entry& TaskBook::entry(int task) {
  if (task < 0 || task >= std::ssize(tasks_))
    throw UsageError(fmt::format("there is no task {}: round {} has {}, counted from 0", task,
                                 round_, tasks_.size()));
  return tasks_[task];
}

void TaskBook::prepare(int manager, std::uint64_t round, int tasks, const RoundRules& rules) {
  std::lock_guard lock(mutex_);
  manage(manager);
  if (stage_ == Stage::closed) throw UsageError("there are no more rounds: they were closed");
  if (tasks < 1 || tasks > ranks_)
    throw UsageError(fmt::format("{} tasks for {} ranks: 1 to {}", tasks, ranks_, ranks_));
  if (!(rules.give_up_s >= 0))
    throw UsageError(fmt::format("tasks given up after {} s: 0 or more", rules.give_up_s));
  stage_ = Stage::prepared;
  round_ = round;
  rules_ = rules;
  tasks_.assign(tasks, {});
  indices_ = 0;
}

void TaskBook::add(int manager, int task, std::span<const std::uint32_t> indices) {
  std::lock_guard lock(mutex_);
  manage(manager);
  if (stage_ != Stage::prepared) throw UsageError("no round is being prepared");
  Entry& to = entry(task);
  indices_ += indices.size();
  if (indices_ > kMostIndices)
    throw UsageError(fmt::format("a round of more than {} samples", kMostIndices));
  to.indices.insert(to.indices.end(), indices.begin(), indices.end());
}

void TaskBook::begin(int manager, double now_s) {
  std::lock_guard lock(mutex_);
  manage(manager);
  if (stage_ != Stage::prepared) throw UsageError("no round is being prepared");
  stage_ = Stage::begun;
  for (int k = 0; k < std::ssize(tasks_); ++k) {
    tasks_[k].state = {.kind = Kind::out, .holder = k, .issues = 0};
    tasks_[k].since_s = now_s;
  }
  sweep(now_s);
}

void TaskBook::give_up(Entry& task) {
  task.state.kind = rules_.reissue ? Kind::open : Kind::dropped;
  task.state.holder = -1;
}

void TaskBook::sweep(double now_s) {
  for (Entry& task : tasks_) {
    if (task.state.kind != Kind::out) continue;
    const bool late = rules_.give_up_s > 0 && now_s - task.since_s >= rules_.give_up_s;
    if (late || dead_.contains(task.state.holder) || task.state.holder == manager_) give_up(task);
  }
}

void TaskBook::bury(int rank) {
  std::lock_guard lock(mutex_);
  if (rank >= 0 && rank < ranks_) dead_.insert(rank);
}

RoundState TaskBook::look(int manager, double now_s) {
  std::lock_guard lock(mutex_);
  manage(manager);
  sweep(now_s);
  RoundState round{.round = round_, .tasks = {}};
  for (const Entry& task : tasks_) {
    round.tasks.push_back(task.state);
    if (rules_.give_up_s > 0 && task.state.kind == Kind::out)
      round.next_in_s = std::min(round.next_in_s, task.since_s + rules_.give_up_s - now_s);
  }
  return round;
}

void TaskBook::take_back(int manager, int task, double now_s) {
  std::lock_guard lock(mutex_);
  manage(manager);
  Entry& lost = entry(task);
  if (lost.state.kind == Kind::reported) give_up(lost);
  sweep(now_s);
}

void TaskBook::close(int manager) {
  std::lock_guard lock(mutex_);
  manage(manager);
  stage_ = Stage::closed;
  tasks_.clear();
}

TaskBook::Handed TaskBook::hand(int worker, int number, double now_s) {
  Entry& task = tasks_[number];
  if (task.state.kind == Kind::open || !task.holders.contains(worker)) {
    task.since_s = now_s;
    ++task.state.issues;
  }
  task.state.kind = Kind::out;
  task.state.holder = worker;
  task.holders.insert(worker);
  return {TaskOffer::Kind::task, round_, number, task.indices.size()};
}

TaskBook::Handed TaskBook::take(int worker, double now_s) {
  std::lock_guard lock(mutex_);
  if (stage_ == Stage::closed) return {.kind = TaskOffer::Kind::over};
  if (stage_ != Stage::begun || worker == manager_) return {};
  sweep(now_s);
  for (const Kind wanted : {Kind::out, Kind::open})
    for (int k = 0; k < std::ssize(tasks_); ++k) {
      const TaskState& task = tasks_[k].state;
      if (task.kind == wanted && (wanted == Kind::open || task.holder == worker))
        return hand(worker, k, now_s);
    }
  return {};
}

std::vector<std::uint32_t> TaskBook::page(std::uint64_t round, int task, std::size_t first,
                                          std::size_t most) const {
  std::lock_guard lock(mutex_);
  if (stage_ != Stage::begun || round != round_ || task < 0 || task >= std::ssize(tasks_))
    return {};
  const std::vector<std::uint32_t>& all = tasks_[task].indices;
  const std::size_t begin = std::min(first, all.size()), end = std::min(all.size(), begin + most);
  return {all.begin() + static_cast<std::ptrdiff_t>(begin),
          all.begin() + static_cast<std::ptrdiff_t>(end)};
}

bool TaskBook::report(int worker, const TaskReport& report) {
  std::lock_guard lock(mutex_);
  if (stage_ != Stage::begun || report.round != round_) return false;
  Entry& task = entry(report.task);
  if (!task.holders.contains(worker))
    throw UsageError(fmt::format("rank {} reports task {} of round {}, which it was never given",
                                 worker, report.task, report.round));
  if (task.state.kind == Kind::reported || task.state.kind == Kind::dropped) return false;
  task.state.kind = Kind::reported;
  task.state.holder = worker;
  task.state.loss = report.loss;
  task.state.samples = report.samples;
  return true;
}

}  // namespace lockstep
