// A slow network without root: a message of M bytes sent at time t is seen by its receiver no
// earlier than max(t, when the link is free) + M / bandwidth + latency. Works over any transport
// whose ranks share one clock (all on one machine) and where every rank is shaped.
//
// The sender works out when a message may be seen and tells so in a stamp, a small control message
// sent right behind it; the receiver holds the message back until then. Stamps show in no ledger
// above this. A send ends as it does below: the link queues without bound. An any-source recv takes
// the message that is there first, which over unequal links need not be the one seen first. Windows
// reach nobody: memory shared with a peer would pass by the link.
#pragma once

#include <deque>
#include <limits>

#include "transport/held_back.h"

namespace lockstep {

struct Link {
  double bytes_per_second = std::numeric_limits<double>::infinity();
  double latency_seconds = 0;
};

class Shaped : public HeldBack {
 public:
  // links[r]: from this rank to rank r. UsageError unless there is one for each rank, faster than
  // 0.
  Shaped(Transport& inner, const std::vector<Link>& links, Sleep sleep);
  ~Shaped() override;

  [[nodiscard]] Request send(int to, Tag, ConstBytes) override;
  std::optional<Arrival> probe(int from, Tag) override;
  bool cancel(Request) override;

 private:
  class View;
  struct Stamp {
    double seen_at;
    std::uint32_t key;
    std::uint32_t zero = 0;
  };
  struct SentStamp {
    Request message, request;
    std::unique_ptr<Stamp> stamp;
  };
  struct Road {
    Link link;
    double free_at = 0;
  };
  using Stream = std::pair<int, std::uint32_t>;  // (from, tag key)

  double due(const Posted&, const Arrival&) override;
  // When message `place` (from 0) of those not yet seen in a stream may be seen.
  double stamp_of(Stream, std::size_t place);
  std::unique_ptr<WindowView> view_of(Window&) override;

  std::vector<Road> roads_;
  std::vector<SentStamp> sent_;                  // kept until they are gone
  std::map<Stream, std::deque<double>> stamps_;  // of messages not yet seen
};

}  // namespace lockstep
