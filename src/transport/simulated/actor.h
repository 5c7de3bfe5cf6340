// How an actor of the simulation sleeps and is woken; all blocking in the simulated world comes
// down to this. Actors run one at a time, and virtual time passes only while all of them sleep.
#pragma once

#include <cxxabi.h>
#include <simgrid/forward.h>

#include <functional>
#include <string>

namespace lockstep {

// Thrown out of sleep() in an actor that is to die. No std::exception, so that nobody who handles
// errors stops it by accident.
struct Died {};

double virtual_now();

class SimulatedActor {
 public:
  SimulatedActor() = default;
  SimulatedActor(const SimulatedActor&) = delete;
  SimulatedActor& operator=(const SimulatedActor&) = delete;

  // `code` must let Died and SimGrid's own kill pass, and end by returning or with one of these.
  void start(const std::string& name, simgrid::s4u::Host*, std::function<void()> code);

  // On this actor: until woken, or the virtual time `until` (may be infinite). May return early:
  // call it in a loop. `what` completes "rank 3 waits for …".
  void sleep(double until, const char* what);
  // From any actor, or from the simulation's own hands (a landing, an alarm).
  void wake();
  // Wakes it; this sleep() and all later ones throw Died.
  void kill();

  // Does the calling code run on this actor?
  bool is_current() const;
  // What it waits for, or nullptr if awake.
  const char* waits_for() const { return asleep_ ? what_ : nullptr; }

 private:
  void set_alarm(double at);
  void ring();

  simgrid::s4u::ActorPtr actor_;
  // At most one alarm is pending. It may ring before `until_`, left over from an earlier sleep, and
  // is then set anew: so sleeps with the usual long deadlines need not touch it.
  simgrid::kernel::timer::Timer* alarm_ = nullptr;
  double until_ = 0;
  const char* what_ = nullptr;
  bool asleep_ = false;
  bool killed_ = false;
};

// Runs `f`, which may hand over to other actors. The C++ runtime counts exceptions by thread and
// all actors share one, so each must find its own count again: only then may actors block in a
// handler.
template <class F>
void switching(F&& f) {
  struct Exceptions {  // the layout that the C++ ABI fixes for __cxa_eh_globals
    void* caught = nullptr;
    unsigned int uncaught = 0;
  };
  auto* shared = reinterpret_cast<Exceptions*>(abi::__cxa_get_globals());
  const Exceptions mine = *shared;
  *shared = {};
  f();  // throws only to unwind a killed actor, whose handlers no longer matter
  *shared = mine;
}

// Rings once at that virtual time, outside all actors. `f` must not block. Call before the
// simulation starts.
void at_virtual_time(double at, std::function<void()> f);

}  // namespace lockstep
