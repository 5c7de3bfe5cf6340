// A lane of a rank in the simulated world, its windows, and what all lanes share.
#pragma once

#include <memory>
#include <vector>

#include "transport/failure.h"
#include "transport/operations.h"
#include "transport/plain_window.h"
#include "transport/simulated/actor.h"
#include "transport/simulated/mail.h"
#include "transport/simulated/simulated.h"

namespace lockstep {

// Where the members meet on one lane.
struct SimulatedMeeting {
  explicit SimulatedMeeting(std::size_t members) : who(members), arrivals(members) {
    for (auto& round : words) round.resize(members);
  }

  std::vector<SimulatedTransport*> who;  // null: has not used it yet
  std::vector<std::uint64_t> arrivals;   // how many rounds each member came to
  // By round, odd or even: nobody enters round n + 2 before all have left round n.
  std::vector<Window::Words> words[2];
};

// Plain memory. A meeting takes the local latency from the moment its last member comes; moved()
// takes bytes / local bandwidth.
class SimulatedWindow final
    : public PlainWindow<SimulatedWindow, SimulatedTransport, SimulatedMeeting> {
 public:
  SimulatedWindow(All&, SimulatedTransport& who, std::vector<int> members, std::shared_ptr<Memory>);
  ~SimulatedWindow() override;

  Words said(int rank) const override { return words()[index_of(rank)]; }
  int meet(const Words& mine) override;
  void moved(int, Tag, std::size_t read, std::size_t written) override;

  // Returns when all members have come.
  void come(const Words& mine, Deadline deadline);

 private:
  std::vector<Words>& words() const { return meeting_.words[meeting_.arrivals[index_] % 2]; }
};

// What the ranks of one simulation share: the network, the lanes, and who is gone. Touched by one
// actor at a time, or between actors, so without locks.
class SimulatedWorld {
 public:
  struct Fate {
    bool gone = false;
    bool died = false;  // then gone, too
    Blame blame;        // of a rank that left: see failure.h
  };

  explicit SimulatedWorld(const SimulatedCluster&);
  ~SimulatedWorld();

  // Opens rank r's next lane, on an actor that outlives the world's run. Call for all ranks before
  // the simulation starts.
  void open_lane(int rank, SimulatedActor&);
  SimulatedTransport& lane(int rank, int lane) { return *lanes_[rank][lane]; }

  const Fate& fate(int rank) const { return fates_[rank]; }
  // How many ranks are not gone.
  int present() const { return present_; }
  void blame(int rank, Blame blame) { fates_[rank].blame = blame; }
  // The error for `waiter`, which needs (peer, tag) of a rank that is gone.
  TransportError gone_error(int peer, int waiter, Tag tag) const;

  // The rank takes no further part. What it had under way is lost; whoever waits for it is woken.
  void leave(int rank) { part(rank, false); }
  // The same, and its lanes' actors are killed.
  void die(int rank);

  const SimulatedCluster cluster;
  SimulatedNetwork network;
  SimulatedMessages messages;
  SimulatedWindow::All windows;

 private:
  void part(int rank, bool died);

  std::vector<std::vector<std::unique_ptr<SimulatedTransport>>> lanes_;
  std::vector<Fate> fates_;
  int present_;
};

// A lane of a rank in the simulated world. The bytes of a send start to fly at once if they are
// few, or if its receive is posted and its receiver is inside a call (see SimulatedNetwork; on one
// host the receive need not be posted). The send completes when they land. A payload is read when a
// receive takes it: straight from the sender's buffer, or from a copy made when the sender's
// request ends first. A failed test or probe takes kPollSeconds, or a loop around it would stop the
// world.
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
  void fly(SimulatedMessage&);
  void complete(SimulatedRequest&);
  // Ends a request that has completed, was withdrawn, or can't complete. False: it was a send of
  // which nothing arrives.
  bool end(SimulatedRequest&);
  std::optional<Ending> take(SimulatedRequest&);
  // Ends the request if its peer is gone.
  std::optional<Ending> hopeless(SimulatedRequest&);
  void sleep_for_requests(std::span<const Request>, double until);

  SimulatedWorld& world_;
  const int rank_, lane_;
  SimulatedActor& actor_;
  SimulatedMail mail_;
  Operations<SimulatedRequest> requests_;
  std::vector<SimulatedRequest*> completed_;  // scratch of landed()
  // What it sleeps for, while it does.
  std::span<const Request> awaited_;
  std::span<const int> meeting_;
  std::uint64_t rings_ = 0;  // not yet heard
};

}  // namespace lockstep
