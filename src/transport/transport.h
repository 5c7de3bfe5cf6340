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
// Endings: a wait says which request ended and how. That a peer is gone is a value, not an
// exception, since many strategies go on without it; wait() throws it for those that can't. A
// mismatch, which ends a run, is always thrown. Nothing waits past its deadline.
// Leaving: destroying a Transport tells the peers; what they wait for from it then ends with
// `left`, unless it had already been sent.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/bytes.h"
#include "core/error.h"
#include "transport/tag.h"
#include "transport/window.h"

namespace lockstep {

inline constexpr int kAnyRank = -1;  // for probe
// No transport is asked to take a longer message while its receiver computes. Real ones may, as far
// as their buffers go; simulated ones never do.
inline constexpr std::size_t kEagerBytes = 64 << 10;

// A point in time, in seconds on the clock of the rank that waits (Transport::now()).
struct Deadline {
  double at;
};

// An open operation, by name. Its owner is a Pending.
struct Request {
  std::uint64_t id = 0;
  bool operator==(const Request&) const = default;
};

// A message that was received, or is there to be. Of a send: `from` is this rank and `bytes` what
// was sent.
struct Arrival {
  int from = 0;
  std::size_t bytes = 0;
};

// How a wait ended: a request arrived, or can't because its peer is gone, or the wait was late.
struct Ending {
  std::size_t index = 0;  // of the request in the list
  Arrival arrival;        // if it arrived
  // The peer is gone (`dead` or `left`): the request has ended too. Its peer() is the rank to
  // blame, which need not be the request's. Or the wait was late (`deadline`): all requests stay
  // open, and it names the first one's peer.
  std::optional<TransportError> failure = {};

  bool arrived() const { return !failure; }
  bool gone() const { return failure && failure->is_gone(); }
  bool late() const { return failure && !failure->is_gone(); }
  // For code that can't go on without the peer: throws the failure.
  const Arrival& or_throw() const {
    if (failure) throw *failure;
    return arrival;
  }
};

class Transport;

// An open request and its owner, which gives it up when it goes. Giving up never throws, waits for
// no peer (but see ucx.h) and, in simulation, passes no time; afterwards the request's memory is
// the caller's again. A receive that is given up takes no message, unless that was arriving: then
// the message is lost, and the memory holds a part of it (with `combine`: some elements are folded
// in). A send that is given up reaches its peer whole or not at all. Belongs to the thread of its
// transport. The transport outlives it.
class Pending {
 public:
  Pending() = default;  // none
  Pending(Transport& transport, Request request) : transport_(&transport), request_(request) {}
  Pending(Pending&& other) noexcept
      : transport_(std::exchange(other.transport_, nullptr)), request_(other.request_) {}
  Pending& operator=(Pending&& other) noexcept {
    if (this == &other) return *this;
    give_up();
    transport_ = std::exchange(other.transport_, nullptr);
    request_ = other.request_;
    return *this;
  }
  ~Pending() { give_up(); }

  // Is there a request that has not ended, as far as this has been told?
  explicit operator bool() const { return transport_ != nullptr; }
  // For lists of what is waited for.
  Request request() const { return request_; }
  bool is(Request request) const { return transport_ && request_ == request; }
  // It was returned by a wait. To say so spares a look; what has ended can be given up at no harm.
  void ended() { transport_ = nullptr; }
  void give_up() noexcept;

 private:
  Transport* transport_ = nullptr;
  Request request_;
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
  [[nodiscard]] Pending send(int to, Tag tag, ConstBytes bytes) {
    return {*this, post_send(to, tag, bytes)};
  }

  // The message may be shorter than `into` (see Arrival::bytes); a longer one, or one of another
  // format, is a `mismatch`. With `combine` the arriving bytes are folded into `into` instead of
  // overwriting it; message sizes are then whole elements. `into` belongs to the transport until
  // the request has ended. A hollow `into` takes the size and drops the data.
  // UsageError if `from` is out of range or this rank itself.
  [[nodiscard]] Pending recv(int from, Tag tag, Bytes into, Combine combine = nullptr) {
    return {*this, post_recv(from, tag, into, combine)};
  }

  // A request that ends when ring() is called, so that a thread that waits for messages can be told
  // something by another. One ring ends one bell, also one that is opened later. Its Arrival is
  // that of an empty send.
  [[nodiscard]] Pending bell() { return {*this, post_bell()}; }

  // Ends the first request in the list that is complete; where none is seen to be, one whose peer
  // is gone. A receive whose message has another format or is too long throws a `mismatch` and is
  // ended.
  // REQUIRES: a non-empty list of open requests.
  virtual Ending wait_any(std::span<const Request>, Deadline) = 0;
  // Ends the request if it is complete or can't be. Never blocks. Throws as wait_any.
  virtual std::optional<Ending> test(Request) = 0;
  // Is there a message that a recv posted now would match? Its sender and size. Never blocks.
  // `from` may be kAnyRank.
  virtual std::optional<Arrival> probe(int from, Tag) = 0;

  // For any thread, as long as this lives. Never blocks for long.
  virtual void ring() = 0;

  // What send, recv and bell do, without an owner: for decorators, and for give_up.
  virtual Request post_send(int to, Tag, ConstBytes) = 0;
  virtual Request post_recv(int from, Tag, Bytes into, Combine) = 0;
  virtual Request post_bell() = 0;
  // See Pending. True: nothing came of it, so a receive took no message, and a send never reaches
  // its peer. A request that has ended is left alone.
  virtual bool give_up(Request) noexcept = 0;

  // Ranks known to be dead (not: left in good order), ascending.
  virtual std::vector<int> dead_peers() = 0;

  // Memory of `bytes` bytes, zeroed and aligned to 64, that those `members` on my host can map;
  // collective over members (ranks of this transport, ascending, me among them; empty: all). Sizes
  // may differ by rank.
  virtual std::unique_ptr<Window> open_window(std::size_t bytes,
                                              std::span<const int> members = {}) = 0;
  // The open window of this rank that holds this address, whichever lane opened it, or nullptr.
  // Used on this lane (see window.h); valid until the window is closed. A transport between hosts,
  // which share no memory, finds only those of its own lane.
  virtual Window* window_at(const void* address) = 0;

  // Seconds on this rank's clock: wall time from an arbitrary start, or virtual time.
  virtual double now() const = 0;
  // How long wait(Request) waits.
  virtual double patience_seconds() const = 0;

  // For code that can't go on without the peer: throws the TransportError that names it. After a
  // deadline the request stays open.
  Arrival wait(Pending& pending, Deadline deadline) { return ending(pending, deadline).or_throw(); }
  Arrival wait(Pending& pending) { return wait(pending, patience()); }
  Arrival wait(Pending&& pending, Deadline deadline) { return wait(pending, deadline); }
  Arrival wait(Pending&& pending) { return wait(pending, patience()); }
  // As wait_any, of one.
  Ending ending(Pending& pending, Deadline deadline) {
    const Request request = pending.request();
    Ending how = wait_any({&request, 1}, deadline);
    if (!how.late()) pending.ended();
    return how;
  }
  Deadline patience() const { return {now() + patience_seconds()}; }
};

inline void Pending::give_up() noexcept {
  if (transport_) std::exchange(transport_, nullptr)->give_up(request_);
}

inline constexpr double kDefaultPatienceSeconds = 300;

}  // namespace lockstep
