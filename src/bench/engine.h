// Something that can do the work and be timed: our ranks in processes, in threads, in simulation,
// or another library's. Engines in one run take turns; an engine whose turn it is not uses no
// processor time.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "bench/participant.h"
#include "bench/pipes.h"
#include "bench/work.h"

namespace lockstep::bench {

class Engine {
 public:
  virtual ~Engine() = default;
  virtual const std::string& name() const = 0;
  // Returns when all ranks of the engine have answered. InternalError names the engine and the rank
  // that failed; Interrupted after Ctrl-C. After either the engine is good only for destruction.
  virtual Result measure(const Work&) = 0;
};

// An engine whose ranks live inside one process, as threads or as actors in virtual time. Each
// measurement runs in a child of its own, because a process can hold one simulation only, and so
// that Ctrl-C always works.
class ForkedEngine : public Engine {
 public:
  // Called in the child: does the work on all ranks and joins their results.
  using Run = std::function<Result(const Work&)>;
  ForkedEngine(std::string name, int interrupt, Run run)
      : name_(std::move(name)), interrupt_(interrupt), run_(std::move(run)) {}

  const std::string& name() const override { return name_; }
  Result measure(const Work&) override;

 private:
  const std::string name_;
  const int interrupt_;
  const Run run_;
};

// Why processes ended, in one sentence, and their worst exit status. Empty: they run, or nothing is
// known.
struct Verdict {
  std::string sentence;
  int status = 0;
};

// The processes of one engine. The destructor ends them and waits for them.
class Crew {
 public:
  virtual ~Crew() = default;
  // Waits a moment for the news.
  virtual Verdict verdict() = 0;
};

// An engine's processes failed. Their worst exit status is to be passed on.
class CrewFailed : public InternalError {
 public:
  CrewFailed(const std::string& why, int status) : InternalError(why), status_(status) {}
  int status() const { return status_; }

 private:
  int status_;
};

// An engine whose ranks are processes of their own, spoken to through pipes.
class PipedEngine : public Engine {
 public:
  // Starts the processes, each of which must serve() the folder of pipes it is given.
  using Start = std::function<std::unique_ptr<Crew>(const std::string& pipe_folder)>;

  // Makes the folder in `temporary`, starts the crew and waits until every worker has joined. By
  // then all have opened their pipes, so the folder goes: whatever happens later leaves no file
  // behind.
  PipedEngine(std::string name, int workers, const std::string& temporary, int interrupt,
              const Start&);

  const std::string& name() const override { return name_; }
  Result measure(const Work&) override;

 private:
  Result hear(double patience_seconds);

  const std::string name_;
  PrivateFolder folder_;
  std::unique_ptr<Crew> crew_;
  BenchPipes pipes_;  // goes first: then an idle worker sees the end and leaves in good order
};

// A worker's life: joins its engine, says so, and takes part in what comes through the pipe until
// the bench has gone. Joining may block until all ranks are there. Errors are told to the bench and
// thrown.
void serve(const std::string& pipe_folder, int rank,
           const std::function<std::unique_ptr<Participant>()>& join);

}  // namespace lockstep::bench
