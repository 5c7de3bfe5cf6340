// One rank of an engine under test, ours or a peer's, and the one way all of them are timed.
#pragma once

#include <memory>

#include "bench/work.h"
#include "core/error.h"
#include "core/values.h"

namespace lockstep::bench {

// One rank's part in rounds of pushes to servers and pulls. Servers add up what they get, from
// zeros on; server k of K holds chunk(count, K, k) of the numbers.
class PushPull {
 public:
  virtual ~PushPull() = default;

  // On a server, all its life: until every worker has had its rounds and rests.
  virtual bool serves() const = 0;
  virtual void serve(int rounds) = 0;

  // On workers. What this one pushes, the same in each round; what it has pulled, fp32. May be
  // hollow.
  virtual Values pushed() = 0;
  virtual Values pulled() = 0;
  virtual void barrier() = 0;  // of workers
  virtual void push_and_pull(int round) = 0;
  // Do servers add the mean of all pushes of a round, so that all workers pull the same? Else each
  // push is added when it comes, and a worker pulls its own and some of the others'.
  virtual bool averages() const = 0;
  // After the last round; then pulled() has what all workers pushed.
  virtual void rest() = 0;

  // So far by this rank, if the engine can tell.
  virtual std::optional<std::uint64_t> bytes_sent() const { return std::nullopt; }
};

class Participant {
 public:
  virtual ~Participant() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Seconds.
  virtual double now() const = 0;

  // This rank's memory, of the kind its engine likes best. Collective; valid until the next call,
  // which returns the same memory if it is asked for as many bytes. May be hollow.
  virtual Bytes buffer(std::size_t bytes) = 0;
  virtual void barrier() = 0;
  // Sums in place.
  virtual void all_reduce(const Work&, Values) = 0;
  // The same, also counting what this rank sends for it, if the engine can tell. May be slower.
  virtual std::optional<std::uint64_t> counted_all_reduce(const Work& work, Values values) {
    all_reduce(work, values);
    return std::nullopt;
  }
  // Do all ranks read one clock, as on one machine?
  virtual bool common_clock() const { return true; }
  // Is now() simulated, so that counting takes no time and all leave a barrier at once?
  virtual bool virtual_time() const { return false; }
  // `messages` messages that together fill `bytes`, all under way at once. Returns when all have
  // ended.
  virtual void send(int to, Bytes bytes, int messages) = 0;
  virtual void recv(int from, Bytes bytes, int messages) = 0;

  // Collective. The ranks begin anew: servers have zeros. Valid as long as this.
  virtual std::unique_ptr<PushPull> push_pull(const Work& work) {
    throw InternalError(fmt::format("this engine has no servers for {}", work.collective));
  }

  // What runs for this work on these values, e.g. the algorithm that `auto` picks.
  virtual std::string chosen(const Work&, Values) = 0;
};

// Collective: every rank of the engine calls it with the same work.
Result measure(const Work&, Participant&);

}  // namespace lockstep::bench
