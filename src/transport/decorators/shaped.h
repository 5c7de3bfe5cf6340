// A slow network without root: a message of M bytes sent at time t is seen by its receiver no
// earlier than max(t, when the link is free) + M / bandwidth + latency. Works over any transport
// whose ranks share one clock (all on one machine) and where every rank is shaped.
//
// The sender works out when a message may be seen and tells so in a stamp, a small control message
// sent right behind it; the receiver holds the message back until then. Stamps show in no ledger
// above this. A send ends as it does below: the link queues without bound. Windows reach nobody:
// memory shared with a peer would pass by the link.
#pragma once

#include <atomic>
#include <deque>
#include <limits>

#include "transport/decorators/held_back.h"

namespace lockstep {

struct Link {
  double bytes_per_second = std::numeric_limits<double>::infinity();
  double latency_seconds = 0;
};

// A rank's links to all ranks, which its lanes share. For any thread.
class Roads {
 public:
  // links[r]: to rank r. UsageError unless all are faster than 0.
  explicit Roads(const std::vector<Link>& links);
  std::size_t size() const { return roads_.size(); }
  // A message leaves now. When it may be seen.
  double seen_at(int to, std::size_t bytes, double now);

 private:
  struct Road {
    Link link;
    std::atomic<double> free_at = 0;
  };
  std::vector<Road> roads_;
};

class Shaped : public HeldBack {
 public:
  // UsageError unless there is a link for each rank, faster than 0.
  Shaped(Transport& inner, const std::vector<Link>& links, Sleep sleep);
  Shaped(Transport& inner, std::shared_ptr<Roads> roads, Sleep sleep);

  // Waits until the stamps of all that was sent are sent too: then another thread may destroy this.
  void settle();

  Request post_send(int to, Tag, ConstBytes) override;
  std::optional<Arrival> probe(int from, Tag) override;
  bool give_up(Request) noexcept override;

 private:
  class View;
  struct Stamp {
    double seen_at;
    std::uint32_t key;
    std::uint32_t zero = 0;
  };
  struct SentStamp {
    Request message;
    std::unique_ptr<Stamp> stamp;
    Pending sending;  // goes before the stamp
  };
  using Stream = std::pair<int, std::uint32_t>;  // (from, tag key)
  // A message that is not yet seen, and may not be here.
  struct Unseen {
    std::optional<double> seen_at;  // once its stamp is here
    bool lost = false;              // nobody will see it
  };

  double due(const Posted&, const Arrival&) override;
  void lost(const Posted&) override;
  // Earlier receives from the same rank took earlier messages, seen or not.
  std::size_t place_of(const Posted&) const;
  // Message `place` (from 0) of those in a stream that are to be seen.
  std::deque<Unseen>::iterator unseen(Stream, std::size_t place);
  // When it may be seen. Waits for its stamp.
  double stamp_of(Stream, std::size_t place);
  std::unique_ptr<WindowView> view_of(Window&) override;

  const std::shared_ptr<Roads> roads_;
  std::vector<SentStamp> sent_;                  // kept until they are gone
  std::map<Stream, std::deque<Unseen>> unseen_;  // in the order sent
};

}  // namespace lockstep
