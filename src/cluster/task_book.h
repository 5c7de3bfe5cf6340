// The book of a job's rounds: who has which task since when, and what was reported. Pure logic: no
// sockets, and no clock, for callers say what time it is. Thread-safe.
//
// Every task is handed out at least once and has at most one result, the first that is reported
// before its round is over. A worker that was given up and still reports first has done the work.
#pragma once

#include <mutex>
#include <set>
#include <span>

#include "cluster/tasks.h"

namespace lockstep {

class TaskBook {
 public:
  static constexpr std::size_t kMostIndices = std::size_t{1} << 26;  // of all tasks of a round

  explicit TaskBook(int ranks) : ranks_(ranks) {}

  // The manager's part, in this order: a round is prepared with as many tasks, their indices are
  // added page by page, and it begins. UsageError: another rank manages the rounds; too many tasks
  // or indices; no such task; out of turn.
  void prepare(int manager, std::uint64_t round, int tasks, const RoundRules&);
  void add(int manager, int task, std::span<const std::uint32_t> indices);
  void begin(int manager, double now_s);
  RoundState look(int manager, double now_s);
  void take_back(int manager, int task, double now_s);
  void close(int manager);

  // From whoever knows. Of workers: what they have and have not reported is given up.
  void bury(int rank);

  // What there is for this worker: what it holds or was dealt, else what was given up.
  struct Handed {
    TaskOffer::Kind kind = TaskOffer::Kind::wait;
    std::uint64_t round = 0;
    int task = 0;
    std::size_t count = 0;  // of its indices
  };
  Handed take(int worker, double now_s);
  // Up to `most` indices of a task from the `first` on; empty at its end, or if the round is over.
  std::vector<std::uint32_t> page(std::uint64_t round, int task, std::size_t first,
                                  std::size_t most) const;
  // UsageError if the task was never handed to that worker.
  bool report(int worker, const TaskReport&);

 private:
  struct Entry {
    TaskState state;
    double since_s = 0;     // when it was handed out last
    std::set<int> holders;  // all that were handed it
    std::vector<std::uint32_t> indices;
  };
  enum class Stage { none, prepared, begun, closed };

  void manage(int manager);
  Entry& entry(int task);
  void give_up(Entry&);
  void sweep(double now_s);
  Handed hand(int worker, int task, double now_s);

  const int ranks_;
  mutable std::mutex mutex_;
  Stage stage_ = Stage::none;
  int manager_ = -1;
  std::uint64_t round_ = 0;
  RoundRules rules_;
  std::vector<Entry> tasks_;
  std::size_t indices_ = 0;
  std::set<int> dead_;
};

}  // namespace lockstep
