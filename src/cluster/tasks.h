// What a manager has workers do, round by round: each round is a set of tasks, each a list of
// samples. A rank sees a TaskBoard; behind all boards of a job there is one TaskBook (task_book.h),
// in the coordinator, or in the process that all ranks share.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace lockstep {

// What becomes of a task whose holder is dead, or has had it for too long.
struct RoundRules {
  double give_up_s = 0;  // too long; 0: no time is, and only the dead are given up
  bool reissue = true;   // to a worker that has nothing to do; else the task is dropped
};

struct Task {
  std::uint64_t round = 0;
  int number = 0;
  std::vector<std::uint32_t> indices;
};

struct TaskOffer {
  enum class Kind { wait, task, over } kind = Kind::wait;  // for now; here is one; for good
  Task task;
};

// What a worker says of a task that it has done.
struct TaskReport {
  std::uint64_t round = 0;
  int task = 0;
  double loss = 0;  // mean over its samples
  std::uint64_t samples = 0;
};

struct TaskState {
  enum class Kind : std::uint8_t {
    out,       // with `holder`
    open,      // given up: whoever asks next gets it
    reported,  // by `holder`
    dropped,
  } kind = Kind::out;
  int holder = -1;
  int issues = 0;  // how often it was handed out
  double loss = 0;
  std::uint64_t samples = 0;
};

// A round as its manager sees it.
struct RoundState {
  std::uint64_t round = 0;
  std::vector<TaskState> tasks;
  // Seconds until the next task is given up, if nothing happens before.
  double next_in_s = std::numeric_limits<double>::infinity();

  // Is there nothing more to wait for?
  bool settled() const {
    for (const TaskState& task : tasks)
      if (task.kind == TaskState::Kind::out || task.kind == TaskState::Kind::open) return false;
    return true;
  }
  bool has_open() const {
    for (const TaskState& task : tasks)
      if (task.kind == TaskState::Kind::open) return true;
    return false;
  }
};

// One rank's view. Belongs to the rank's thread. Errors: UsageError for a call that makes no sense,
// TransportError if the book is out of reach.
class TaskBoard {
 public:
  virtual ~TaskBoard() = default;

  // The manager's. The first rank that opens a round manages all of them. Task k is dealt to rank
  // k. What is reported of an earlier round from now on comes too late.
  virtual void open(std::uint64_t round, const std::vector<std::vector<std::uint32_t>>& tasks,
                    const RoundRules&) = 0;
  virtual RoundState look() = 0;
  // That rank is gone, as far as its peers can tell.
  virtual void bury(int rank) = 0;
  // A reported result turned out to be lost: the task is given up as if its holder had died.
  virtual void take_back(int task) = 0;
  // There are no more rounds.
  virtual void close() = 0;

  // The workers'. Never wait: who is told to wait asks again when the manager says so.
  virtual TaskOffer take() = 0;
  // True: this is the task's one result. False: it comes too late, and counts for nothing.
  virtual bool report(const TaskReport&) = 0;
};

}  // namespace lockstep
