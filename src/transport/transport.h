// One rank's lines to its peers: tagged, non-blocking messages, and windows (memory that peers on
// my host can see). Implementations: loopback, shm, ucx, routed, simulated. Decorators: metered,
// faulty, shaped, witnessed. Views: group. One contract suite runs over all:
// tests/transport/contract.h.
//
// Threads: a Transport belongs to one thread. Another thread takes another lane (see rank.h); all
// that it may do here is ring().
// Order: messages with the same (from, to, tag key) are received in the order they were sent.
// Progress: only inside calls on this object; every wait moves all open requests, not just its own.
// A message of more than kEagerBytes stands still while either end is outside calls on its lane or,
// between hosts, its receive is not posted (a probe sees it, others overtake it). A shorter one may
// arrive without its sender's further help, and waits for its receiver. So what is to happen beside
// the computation is a job on the background's lane, at both ends.
// Errors: TransportError that names the rank at fault; nothing waits past its deadline.
// Leaving: destroying a Transport tells the peers; what they wait for from it then fails with
// `left`, unless it had already been sent.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/bytes.h"
#include "core/error.h"
#include "transport/tag.h"
#include "transport/window.h"

namespace lockstep {

inline constexpr int kAnyRank = -1;
// No transport is asked to take a longer message while its receiver computes. Real ones may, as far
// as their buffers go; simulated ones never do.
inline constexpr std::size_t kEagerBytes = 64 << 10;

// A point in time, in seconds on the clock of the rank that waits (Transport::now()).
struct Deadline {
  double at;
};

// An open operation. Ends by being returned from wait, wait_any or test, or by cancel; not again.
struct Request {
  std::uint64_t id = 0;
  bool operator==(const Request&) const = default;
};

// How an operation ended. For a send: `from` is this rank and `bytes` what was sent.
struct Arrival {
  int from = 0;
  std::size_t bytes = 0;
};

class Transport {
 public:
  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // The host a rank runs on, numbered from 0 in order of first rank. The same answer on every rank.
  virtual int host_of(int rank) const = 0;
  // How errors call a rank: its number in the job, where this is a view of some of its ranks.
  virtual int job_rank(int rank) const { return rank; }

  // The bytes stay alive and untouched until the request has ended. May be hollow.
  // UsageError if `to` is out of range or this rank itself.
  [[nodiscard]] virtual Request send(int to, Tag, ConstBytes) = 0;

  // From one rank, or from kAnyRank. The message may be shorter than `into` (see Arrival::bytes); a
  // longer one, or one of another format, is a `mismatch`. With `combine` the arriving bytes are
  // folded into `into` instead of overwriting it; message sizes are then whole elements. `into`
  // belongs to the transport until the request has ended. A hollow `into` takes the size and drops
  // the data.
  [[nodiscard]] virtual Request recv(int from, Tag, Bytes into, Combine combine = nullptr) = 0;

  // Ends the first request in the list that is complete and returns its index. At the deadline:
  // TransportError `deadline` naming the first peer waited for; all requests stay open.
  // A request that can't complete (dead or departed peer, mismatch) throws and is ended.
  // REQUIRES: a non-empty list.
  virtual std::size_t wait_any(std::span<const Request>, Deadline, Arrival* arrival = nullptr) = 0;
  // Ends the request if it is complete. Never blocks.
  virtual std::optional<Arrival> test(Request) = 0;
  // Is there a message that a recv posted now would match? Its sender and size. Never blocks.
  virtual std::optional<Arrival> probe(int from, Tag) = 0;
  // Ends a request without waiting. False: it had completed (the message is consumed).
  // A cancelled recv takes no message. A send that has started can't be cancelled: then it is
  // waited for.
  virtual bool cancel(Request) = 0;

  // A request that ends when ring() is called, so that a thread that waits for messages can be told
  // something by another. One ring ends one bell, also one that is opened later. Its Arrival is
  // that of an empty send.
  [[nodiscard]] virtual Request bell() = 0;
  // For any thread, as long as this lives. Never blocks for long.
  virtual void ring() = 0;

  // Ranks known to be dead (not: left in good order), ascending.
  virtual std::vector<int> dead_peers() = 0;

  // Memory of `bytes` bytes, zeroed and aligned to 64, that those `members` on my host can map;
  // collective over members (ranks of this transport, ascending, me among them; empty: all). Sizes
  // may differ by rank.
  virtual std::unique_ptr<Window> open_window(std::size_t bytes,
                                              std::span<const int> members = {}) = 0;
  // The open window that holds this address, or nullptr.
  virtual Window* window_at(const void* address) = 0;

  // Seconds on this rank's clock: wall time from an arbitrary start, or virtual time.
  virtual double now() const = 0;
  // How long wait(Request) waits.
  virtual double patience_seconds() const = 0;

  Arrival wait(Request request, Deadline deadline) {
    Arrival arrival;
    wait_any({&request, 1}, deadline, &arrival);
    return arrival;
  }
  Arrival wait(Request request) { return wait(request, patience()); }
  Deadline patience() const { return {now() + patience_seconds()}; }
};

inline constexpr double kDefaultPatienceSeconds = 300;

}  // namespace lockstep
