// A transport on which messages may be seen later than they arrive: the shared half of `shaped` and
// `faulty`. A receive that completed below is held until its time has come; waits, tests and
// deadlines go by what may be seen. Works in wall and virtual time alike: waits by the transport
// below or by `sleep`.
#pragma once

#include <functional>
#include <map>

#include "transport/decorators/decorator.h"

namespace lockstep {

// Passes so many seconds of this rank's time: a thread's sleep, or an actor's.
using Sleep = std::function<void(double seconds)>;

class HeldBack : public Decorator {
 public:
  Request post_recv(int from, Tag, Bytes into, Combine) override;
  Ending wait_any(std::span<const Request>, Deadline) override;
  std::optional<Ending> test(Request) override;
  bool give_up(Request) noexcept override;

 protected:
  struct Posted {
    std::uint64_t id;
    int from;
    std::uint32_t key;  // of the tag
  };

  HeldBack(Transport& inner, Sleep sleep) : Decorator(inner), sleep_(std::move(sleep)) {}

  // When the message that has just completed this receive may be seen.
  virtual double due(const Posted&, const Arrival&) = 0;
  // This receive was given up, and its message is lost. Must not wait or throw.
  virtual void lost(const Posted&) {}
  // Receives that have not completed below, in the order posted.
  const std::vector<Posted>& posted() const { return posted_; }

  const Sleep sleep_;

 private:
  struct Held {
    Arrival arrival;
    double due;
  };

  // Ends the request if what it holds is due.
  std::optional<Arrival> take(Request);
  // Notes that it completed below: it is held from now on.
  void completed(Request, const Arrival&);
  void forget(Request);

  std::vector<Posted> posted_;
  std::map<std::uint64_t, Held> held_;
};

}  // namespace lockstep
