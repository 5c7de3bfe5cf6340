// The book of a run in rounds, which its manager keeps: which worker has which task since when, and
// what was reported. In every round there is one task for each worker. Pure logic: it sends nothing
// and reads no clock, for its caller says what time it is.
//
// Every task is handed out at least once and has at most one result, the first that is reported
// before its round is over. A worker that was given up and still reports first has done the work.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <vector>

#include "core/error.h"

namespace lockstep {

// What becomes of a task whose holder is dead, or has had it for too long.
struct TaskRules {
  double give_up_s = 0;  // too long; 0: no time is, and only the dead are given up
  bool reissue = true;   // to a worker that has nothing to do; else the task is dropped
};

struct TaskState {
  enum class Kind {
    out,       // with `holder`, or dealt to it
    open,      // given up: the next worker that asks gets it
    reported,  // by `holder`
    dropped,
  } kind = Kind::out;
  int holder = -1;
  int issues = 0;   // how often it was handed out
  double loss = 0;  // as reported: the mean over its samples
  std::uint64_t samples = 0;
  double since_s = 0;          // when it was dealt or handed out last
  std::set<int> holders = {};  // all that were handed it
};

class TaskBook {
 public:
  using Kind = TaskState::Kind;

  TaskBook(int workers, const TaskRules& rules) : workers_(workers), rules_(rules) {}

  // Task k is dealt to worker k. What is reported of an earlier round from now on comes too late.
  void open(std::uint64_t round, double now_s) {
    round_ = round;
    tasks_.assign(workers_, {});
    for (int k = 0; k < workers_; ++k) {
      tasks_[k].holder = k;
      tasks_[k].since_s = now_s;
    }
  }

  // All tasks of the round, as they are now.
  const std::vector<TaskState>& look(double now_s) {
    for (TaskState& task : tasks_) {
      if (task.kind != Kind::out) continue;
      const bool late = rules_.give_up_s > 0 && now_s - task.since_s >= rules_.give_up_s;
      if (late || dead_.contains(task.holder)) give_up(task);
    }
    return tasks_;
  }
  // Is there nothing more to wait for?
  bool settled(double now_s) {
    return std::ranges::none_of(look(now_s), [](const TaskState& task) {
      return task.kind == Kind::out || task.kind == Kind::open;
    });
  }
  // Seconds until the next task is given up, if nothing happens before.
  double next_in_s(double now_s) {
    double next_s = std::numeric_limits<double>::infinity();
    for (const TaskState& task : look(now_s))
      if (rules_.give_up_s > 0 && task.kind == Kind::out)
        next_s = std::min(next_s, task.since_s + rules_.give_up_s - now_s);
    return next_s;
  }

  // The task that this worker gets: the one that it holds or was dealt, else one that was given up.
  std::optional<int> take(int worker, double now_s) {
    look(now_s);
    for (const Kind wanted : {Kind::out, Kind::open})
      for (int k = 0; k < std::ssize(tasks_); ++k)
        if (tasks_[k].kind == wanted && (wanted == Kind::open || tasks_[k].holder == worker))
          return hand(worker, k, now_s);
    return {};
  }

  // True: this is the task's one result. False: it comes too late, and counts for nothing.
  // InternalError if there is no such task, or if it was never handed to that worker.
  bool report(int worker, std::uint64_t round, int task, double loss, std::uint64_t samples) {
    if (round != round_) return false;
    if (task < 0 || task >= std::ssize(tasks_) || !tasks_[task].holders.contains(worker))
      throw InternalError(fmt::format(
          "rank {} reports task {} of round {}, which it was never given", worker, task, round));
    TaskState& done = tasks_[task];
    if (done.kind == Kind::reported || done.kind == Kind::dropped) return false;
    done.kind = Kind::reported;
    done.holder = worker;
    done.loss = loss;
    done.samples = samples;
    return true;
  }

  // That worker is gone: the task that it has and has not reported is given up, in later rounds
  // too.
  void bury(int worker) { dead_.insert(worker); }
  // A reported result turned out to be lost: the task is given up as if its holder had died.
  void take_back(int task) { give_up(tasks_.at(task)); }

 private:
  void give_up(TaskState& task) {
    task.kind = rules_.reissue ? Kind::open : Kind::dropped;
    task.holder = -1;
  }

  int hand(int worker, int number, double now_s) {
    TaskState& task = tasks_[number];
    if (task.kind == Kind::open || !task.holders.contains(worker)) {
      task.since_s = now_s;
      ++task.issues;
    }
    task.kind = Kind::out;
    task.holder = worker;
    task.holders.insert(worker);
    return number;
  }

  const int workers_;
  const TaskRules rules_;
  std::uint64_t round_ = 0;
  std::vector<TaskState> tasks_;
  std::set<int> dead_;
};

}  // namespace lockstep
