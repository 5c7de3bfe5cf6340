#include "transport/simulated/actor.h"

#include <cmath>
#include <simgrid/kernel/Timer.hpp>
#include <simgrid/s4u.hpp>
#include <simgrid/simix.hpp>

namespace lockstep {

namespace s4u = simgrid::s4u;
using simgrid::kernel::actor::simcall_answered;
using simgrid::kernel::timer::Timer;

double virtual_now() { return s4u::Engine::get_clock(); }

void at_virtual_time(double at, std::function<void()> f) { Timer::set(at, std::move(f)); }

void SimulatedActor::start(const std::string& name, s4u::Host* host, std::function<void()> code) {
  switching([&] {
    s4u::Actor::create(name, host, [this, code = std::move(code)] {
      actor_ = s4u::Actor::self();  // here, because it may run before create() has returned
      code();
    });
  });
}

bool SimulatedActor::is_current() const { return s4u::Actor::self() == actor_.get(); }

void SimulatedActor::sleep(double until, const char* what) {
  if (killed_) throw Died{};
  if (virtual_now() >= until) return;
  what_ = what;
  until_ = until;
  asleep_ = true;
  switching([this] {
    if (std::isfinite(until_) && !(alarm_ && alarm_->get_date() <= until_))
      simcall_answered([this] { set_alarm(until_); });
    if (asleep_) s4u::this_actor::suspend();  // unless woken while the alarm was set
  });
  if (killed_) throw Died{};
}

void SimulatedActor::set_alarm(double at) {
  if (alarm_) alarm_->remove();
  alarm_ = Timer::set(at, [this] { ring(); });
}

void SimulatedActor::ring() {
  alarm_ = nullptr;  // a timer that rang is gone
  if (!asleep_) return;
  if (virtual_now() >= until_)
    wake();
  else if (std::isfinite(until_))
    set_alarm(until_);
}

void SimulatedActor::wake() {
  if (!asleep_) return;
  asleep_ = false;
  // SimGrid answers calls in the order actors ran: one that said it sleeps is suspended by then, or
  // will see that it is awake.
  if (s4u::Actor::is_maestro())
    actor_->resume();
  else
    switching([this] { actor_->resume(); });
}

void SimulatedActor::kill() {
  killed_ = true;
  wake();
}

}  // namespace lockstep
