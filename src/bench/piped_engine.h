// An engine whose ranks are processes of their own, spoken to through pipes; and the life of such a
// process.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "bench/engine.h"
#include "bench/participant.h"
#include "bench/pipes.h"

namespace lockstep::bench {

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
