// All that a rank may touch. Strategies, collectives and schedules are written against this and
// nothing else, so the same object code runs on processes and in simulation.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>

#include "core/rng.h"
#include "transport/transport.h"

namespace lockstep {

class Clock {
 public:
  virtual ~Clock() = default;
  // Seconds; the same timeline as Transport::now().
  virtual double now() const = 0;
  // "That piece of work takes this long": passes virtual time, and does nothing where work really
  // takes its own time.
  virtual void charge(double seconds) = 0;
  // For the rank's own thread, where messages depend on a decision that it makes by the time, or by
  // how far another of its threads has come: what was found is what it decides by, unless the run
  // is a replay (see witnessed.h), which decides as the recorded run did.
  virtual bool decided(bool found) { return found; }
};

// Jobs that run beside the rank, one after the other, on a lane of their own (see lanes.h). In
// simulation an actor.
class Background {
 public:
  // Called on that lane; may block there.
  using Job = std::function<void(Transport& lane)>;
  virtual ~Background() = default;
  // Returns at once. Jobs run in the order posted; the number returned counts from 1.
  virtual std::uint64_t post(Job) = 0;
  // Until job `number` and all before it are done. The first error of a job is thrown here, once,
  // and jobs posted after a failed one and before this call are dropped.
  virtual void wait(std::uint64_t number) = 0;
  // Rings on the lane (see Transport::bell): the job that waits there has news, or the next one.
  virtual void ring() = 0;
};

// Keeps a rank and its own jobs apart. BasicLockable. In simulation: waits in virtual
// time.
class Lock {
 public:
  virtual ~Lock() = default;
  virtual void lock() = 0;
  virtual void unlock() = 0;
  // For what looks at a run and is no part of it: the order in which this one is taken is not
  // recorded (see witnessed.h). Else the same lock.
  virtual Lock& unrecorded() { return *this; }
};

struct Rank {
  Transport& peers;
  Clock& clock;
  Background& background;  // the first background lane
  Lock& lock;
  std::uint64_t seed;                         // the run's
  Background* scoring = nullptr;              // the lane of scores; none: no such lane
  std::span<Background* const> further = {};  // background lanes 1, 2, …
  // What random streams go by where the rank plays a role of its own (see rank_group.h). None: they
  // go by its number.
  std::optional<int> stream = {};

  // Background lane `number`, of which 0 is `background`. UsageError if the job asked for fewer.
  Background& background_lane(int number) const {
    if (number == 0) return background;
    if (number < 0 || number > std::ssize(further))
      throw UsageError(
          fmt::format("background lane {} of a rank that has {}: ask for more with "
                      "Lanes::background when the job starts",
                      number, 1 + further.size()));
    return *further[number - 1];
  }

  int rank() const { return peers.rank(); }
  int size() const { return peers.size(); }
  // A stream of its own for each (run, rank or role, purpose).
  Rng random(std::uint64_t purpose) const {
    return Rng(seed, stream.value_or(peers.rank()), purpose);
  }
};

}  // namespace lockstep
