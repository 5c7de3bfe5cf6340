// A lane of a rank in the simulated world. The bytes of a send start to fly at once if they are
// few, or if its receive is posted and its receiver is inside a call (see SimulatedNetwork; on one
// host the receive need not be posted). The send completes when they land. A payload is read when a
// receive takes it: straight from the sender's buffer, or from a copy made when the sender's
// request ends first. A failed test or probe takes kPollSeconds, or a loop around it would stop the
// world.
#pragma once

#include "transport/simulated/actor.h"
#include "transport/simulated/mail.h"
#include "transport/simulated/world.h"
#include "transport/transport.h"

namespace lockstep {

class SimulatedTransport final : public Transport {
 public:
  static constexpr double kPollSeconds = 1e-6;

  // All calls of the Transport interface come from `actor`.
  SimulatedTransport(SimulatedWorld& world, int rank, int lane, SimulatedActor& actor)
      : world_(world), rank_(rank), lane_(lane), actor_(actor), mail_(rank, world.messages) {}

  int rank() const override { return rank_; }
  int size() const override { return world_.cluster.ranks; }
  int host_of(int rank) const override { return world_.cluster.host_of(rank); }
  double now() const override { return virtual_now(); }
  double patience_seconds() const override { return world_.cluster.patience_s; }

  Request post_send(int to, Tag, ConstBytes) override;
  Request post_recv(int from, Tag, Bytes into, Combine) override;
  Request post_bell() override;
  Ending wait_any(std::span<const Request>, Deadline) override;
  std::optional<Ending> test(Request) override;
  std::optional<Arrival> probe(int from, Tag) override;
  bool give_up(Request) noexcept override;
  void ring() override;
  std::vector<int> dead_peers() override;
  std::unique_ptr<Window> open_window(std::size_t bytes, std::span<const int> members) override;
  Window* window_at(const void* address) override;

  int lane() const { return lane_; }
  SimulatedActor& actor() { return actor_; }
  SimulatedWorld& world() { return world_; }

  // Sleeps as part of a meeting with `members`: woken also if one of them goes.
  void sleep_among(std::span<const int> members, double until);
  // Passes virtual time inside a call.
  void pass(double seconds);
  // The actor of a lane that nobody has used yet starts to.
  void begin();
  // As SimulatedActor::sleep, while this lane is outside all calls: its long messages stand still.
  void sleep_outside(double until, const char* what);

  // The world's side. A message to this lane has landed:
  void landed(SimulatedMessage&);
  void wake_if_awaiting(int gone_rank);
  // The rank is gone: its buffers are no longer read or written.
  void close();

 private:
  SimulatedRequest& open_request(bool is_send, int peer, Tag);
  Request handle(const SimulatedRequest&) const;
  SimulatedRequest* find_open(Request);  // nullptr: it has ended
  SimulatedRequest& find(Request);
  void fly(SimulatedMessage&);
  void complete(SimulatedRequest&);
  // Ends a request that has completed, was withdrawn, or can't complete. False: it was a send of
  // which nothing arrives.
  bool end(SimulatedRequest&);
  std::optional<Arrival> take(SimulatedRequest&);
  // Ends the request if its peer is gone.
  std::optional<TransportError> hopeless(SimulatedRequest&);
  void sleep_for_requests(std::span<const Request>, double until);

  SimulatedWorld& world_;
  const int rank_, lane_;
  SimulatedActor& actor_;
  SimulatedMail mail_;
  std::vector<std::unique_ptr<SimulatedRequest>> requests_;
  std::vector<SimulatedRequest*> free_;
  std::vector<SimulatedRequest*> completed_;  // scratch of landed()
  // What it sleeps for, while it does.
  std::span<const Request> awaited_;
  std::span<const int> meeting_;
  std::uint64_t rings_ = 0;  // not yet heard
};

}  // namespace lockstep
