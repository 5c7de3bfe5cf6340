// One rank of an engine under test, ours or a peer's, and the one way all of them are timed.
#pragma once

#include "bench/work.h"
#include "core/values.h"

namespace lockstep::bench {

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

  // What runs for this work on these values, e.g. the algorithm that `auto` picks.
  virtual std::string chosen(const Work&, Values) = 0;
};

// Collective: every rank of the engine calls it with the same work.
Result measure(const Work&, Participant&);

}  // namespace lockstep::bench
