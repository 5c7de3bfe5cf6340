// Carries out what a study still lacks: one run after the other, each by a process of its own that
// the caller starts. Whatever happens, study.json and the folders say truly how far it has come.
#pragma once

#include <functional>
#include <string>

#include "study/study.h"

namespace lockstep::study {

// One study at a time in a folder: two would remove each other's runs.
class FolderLock {
 public:
  // Held until the end of this object or of the process. UsageError if another process holds it or
  // the folder can't be written to.
  explicit FolderLock(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;

 private:
  int fd_ = -1;
};

struct Order {
  const Run* run;
  std::vector<std::string> words;  // of the command, after the program's name
  std::string folder;              // exists and is empty
  double seconds;                  // it may take at most; 0: as long as it likes
};

struct Ending {
  enum class Kind { finished, out_of_time, interrupted } kind = Kind::finished;
  int status = 0;        // as a shell counts
  std::string reason;    // one sentence, if it failed
  std::string out, err;  // what it printed
};

// What a runner needs of the world, which study/ does not touch.
struct World {
  std::function<Ending(const Order&)> execute;
  std::function<double()> now;        // seconds
  std::function<bool()> interrupted;  // by the user, between runs
};

class RunWatcher {
 public:
  virtual ~RunWatcher() = default;
  // The k-th of n starts; the rest should take so long, itself included (0: no idea yet).
  virtual void starts(const Run&, std::size_t k, std::size_t n, double left_s) = 0;
  virtual void ended(const Run&, std::size_t k, std::size_t n) = 0;
};

// The runs of a study.json that is there already, by id; none if there is none or it is damaged.
using Before = std::map<std::string, Run>;
Before runs_before(const std::string& folder);
// Marks what is done there, by the runs' own folders.
void take_over(Study&, const std::string& folder, const Before&);

class Runner {
 public:
  // Makes the folder and takes over what earlier calls left there: runs that are done stay done.
  // UsageError if it can't be written to or another study is at work in it.
  Runner(Study&, std::string folder, World, RunWatcher&);

  // Runs of this turn or earlier, as long as time and patience last. False: interrupted. A run
  // whose folder a process still writes has failed, and the folder stays as it is.
  bool run_until(int turn);
  // Gives what has not been run a reason, and writes study.json.
  void finish();
  // For runs that have been added to the study since: those done before stay done.
  void take_over();

 private:
  // `finished`: the study goes on, whatever came of the run.
  Ending::Kind carry_out(Run&, std::size_t k);
  void settle(Run&, const std::string& folder, const Ending&) const;
  void write() const;
  double expected_s(const Run&) const;
  double left_s() const;

  Study& study_;
  const std::string folder_;
  const World world_;
  RunWatcher& watcher_;
  FolderLock lock_;
  const Before before_;
  double started_ = 0;
  bool out_of_time_ = false;
};

}  // namespace lockstep::study
