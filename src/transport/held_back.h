// A transport on which messages may be seen later than they arrive: the shared half of `shaped` and
// `faulty`. A receive that completed below is held until its time has come; waits, tests and
// deadlines go by what may be seen. Works in wall and virtual time alike: waits by the transport
// below or by `sleep`.
#pragma once

#include <functional>
#include <map>

#include "transport/decorator.h"

namespace lockstep {

// Passes so many seconds of this rank's time: a thread's sleep, or an actor's.
using Sleep = std::function<void(double seconds)>;

class HeldBack : public Decorator {
 public:
  [[nodiscard]] Request recv(int from, Tag, Bytes into, Combine combine = nullptr) override;
  std::size_t wait_any(std::span<const Request>, Deadline, Arrival* arrival = nullptr) override;
  std::optional<Arrival> test(Request) override;
  bool cancel(Request) override;

 protected:
  struct Posted {
    std::uint64_t id;
    int from;
    std::uint32_t key;  // of the tag
  };

  HeldBack(Transport& inner, Sleep sleep) : Decorator(inner), sleep_(std::move(sleep)) {}

  // When the message that has just completed this receive may be seen.
  virtual double due(const Posted&, const Arrival&) = 0;
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
