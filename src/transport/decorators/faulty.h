// Seeded faults, from a schedule. Written KIND:key=value,…
//
//   kill:rank=2,after=100                      it leaves without goodbye after 100 operations
//
//   stall:rank=0,at=2s,seconds=1s              2 s after the start it does nothing for a second
//
//   delay:rank=1,seconds=10ms,probability=0.1  one in ten messages to it comes 10 ms late
//
// An operation is a call that may hear of a peer (send, recv, wait, test, probe, a look who is
// dead, open a window, meet in one). Faults wait for both `after` (operations of this lane) and
// `at` (time since this lane was made). A delayed message holds up those behind it from the same
// peer on the same tag, and no others.
#pragma once

#include <string_view>

#include "core/rng.h"
#include "transport/decorators/held_back.h"

namespace lockstep {

struct Fault {
  enum class Kind { kill, stall, delay };
  Kind kind;
  int rank;
  std::uint64_t after = 0;  // operations
  double at_seconds = 0;
  double seconds = 0;
  double probability = 1;
};

// UsageError says what is wrong and what would be right.
Fault parse_fault(std::string_view text);

// What every operation of a killed rank throws, in worlds where ranks are threads or actors.
class RankKilled : public Error {
 public:
  using Error::Error;
};

class Faulty : public HeldBack {
 public:
  // How a killed rank ends, e.g. by raise(SIGKILL) where it is a process; if it returns, or is
  // empty, this call and all further ones throw RankKilled.
  using Die = std::function<void()>;

  // Faults of other ranks are ignored. The same seed gives the same delays to the same arrivals.
  Faulty(Transport& inner, const std::vector<Fault>& schedule, std::uint64_t seed, Sleep sleep,
         Die die = {});

  Request post_send(int to, Tag, ConstBytes) override;
  Request post_recv(int from, Tag, Bytes into, Combine) override;
  Ending wait_any(std::span<const Request>, Deadline) override;
  std::optional<Ending> test(Request) override;
  std::optional<Arrival> probe(int from, Tag) override;
  std::vector<int> dead_peers() override;
  std::unique_ptr<Window> open_window(std::size_t bytes,
                                      std::span<const int> members = {}) override;

 private:
  class View;

  // Counts an operation; what is due happens now.
  void operate();
  bool started(const Fault&) const;
  double due(const Posted&, const Arrival&) override;
  std::unique_ptr<WindowView> view_of(Window&) override;

  std::vector<Fault> to_come_;  // kills and stalls
  std::vector<Fault> delays_;
  Rng random_;
  const Die die_;
  const double start_;
  std::uint64_t operations_ = 0;
  bool killed_ = false;
  std::map<std::pair<int, std::uint32_t>, double> last_seen_;  // by (from, tag key)
};

}  // namespace lockstep
