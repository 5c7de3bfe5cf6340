// Whom a UCX lane talks to, and who of them is gone and why. An endpoint is made when it is first
// needed, and the first thing it carries is a greeting, which the peer answers: so both ends get to
// know when the other's connection breaks, and whom to tell when they leave.
//
// Greetings and goodbyes are signals, and a signal is sealed: who can reach the interface but does
// not know the job's key can make nobody believe that a rank left, or died.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "transport/deaths.h"
#include "transport/failure.h"
#include "transport/ucx/worker.h"

namespace lockstep {

// What only those who know the job's key can make of a text, at most UcxPeers::kLongestSeal bytes.
// None: of ranks that are threads of one process nobody is a stranger.
using Seal = std::function<std::string(const std::string& text)>;

class UcxPeers {
 public:
  static constexpr std::size_t kLongestSeal = 64;

  // An empty address: a rank that is not reached from here (another transport does that).
  // `worker` and `deaths` outlive this.
  UcxPeers(UcxWorker& worker, int rank, std::vector<std::string> addresses, Seal seal,
           Deaths& deaths);
  // Tells whom it knows (or, if somebody is to blame, everybody) and waits a bounded time until
  // they have heard.
  ~UcxPeers();
  UcxPeers(const UcxPeers&) = delete;

  // Can there be a message from this rank? Whoever reaches the interface may write any number into
  // a tag.
  bool has(int rank) const {
    return rank >= 0 && rank < static_cast<int>(peers_.size()) && peers_[rank].reachable;
  }

  // nullptr: the peer is gone, see verdict(). UsageError if it has no address.
  ucp_ep_h endpoint(int peer);
  // Makes all endpoints.
  void meet_everybody();
  // Who, of those that are reached from here, has not greeted us yet? The endpoints of all others
  // and ours are connected. TransportError: a connection broke before.
  std::vector<int> unmet() const;
  // What was so far made no lane a used one: an idle lane has nobody to tell when it leaves.
  void stay_idle() { used_ = false; }

  // Lets the worker move, and handles what came for us. True if anything moved.
  bool progress();
  // Sleeps until there may be news of a message or of a peer.
  void sleep(double seconds);

  // What one who waits for (peer, tag) is to be told. Empty: the peer lives, or it is not clear yet
  // what became of it (for a second, and until who keeps the job's book has answered).
  std::optional<TransportError> verdict(int peer, Tag tag);
  // What happened to a connection, when UCX said so in another way than through the endpoint.
  void broke(int peer);
  // After a goodbye, if it lives, ends what moves to and from this peer, for good; the requests
  // end in the next calls of progress().
  void hang_up(int peer);
  // The same with one that has done nothing wrong: it counts as one that left.
  void part_with(int peer);
  // Notes that the lane's owner is told this.
  void tell(const TransportError&);

  static constexpr int kTagRankShift = 40;
  static constexpr ucp_tag_t kTagRankMask = 0xffffull << kTagRankShift;
  static constexpr ucp_tag_t kTagSignal = 1ull << 56;  // in no tag of a message

 private:
  enum class Signal { greeting, goodbye, heard_goodbye };
  struct Peer {
    UcxPeers* all = nullptr;
    std::string address;
    ucp_ep_h endpoint = nullptr;
    bool reachable = false;
    bool greeted = false;        // us
    bool left = false;           // said goodbye
    bool heard_goodbye = false;  // ours
    Blame blame;                 // with its goodbye
    bool broken = false;
    bool failed = false;  // its endpoint is to be closed
    double broken_at = 0;
    bool told = false;  // its death was told to the owner of this lane
  };

  static void on_error(void* peer, ucp_ep_h, ucs_status_t);
  void listen();
  void handle_signal(ucp_tag_t, std::string_view seal);
  // Of a signal from one worker to another; their addresses are those of this job and lane alone.
  std::string sealed(ucp_tag_t, const std::string& from, const std::string& to) const;
  void signal(Peer&, Signal);
  void close_failed();
  void say_goodbye();
  // Has it yet to hear our goodbye?
  bool awaits_ear(const Peer&) const;
  void close_all();
  int untold_death() const;
  int rank_of(const Peer& peer) const { return static_cast<int>(&peer - peers_.data()); }

  UcxWorker& worker_;
  const int rank_;
  const Seal seal_;
  Deaths& deaths_;
  std::vector<Peer> peers_;
  void* listening_ = nullptr;  // the receive that waits for signals
  std::array<char, kLongestSeal> heard_{};
  bool any_failed_ = false, any_undecided_ = false, leaving_ = false;
  bool used_ = false;
};

}  // namespace lockstep
