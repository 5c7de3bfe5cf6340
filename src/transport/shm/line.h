// One rank's end of its two rings with one peer: streams what is sent, hands over what arrives.
#pragma once

#include <deque>
#include <memory>

#include "transport/shm/host.h"
#include "transport/shm/inbox.h"
#include "transport/shm/window.h"

namespace lockstep {

class ShmLine {
 public:
  // `inbox` and `windows` are this lane's and outlive the line.
  ShmLine(const ShmHost& host, int lane, int peer, ShmInbox& inbox, const ShmWindows& windows);

  int peer() const { return peer_; }
  const ShmSeat& seat() const { return *seat_; }  // the peer's
  bool has_outgoing() const { return !outgoing_.empty(); }

  void send(ShmOperation& op) { outgoing_.push_back(&op); }
  // Ends an operation early: its memory is not used any more. True: nothing came of it. What is
  // half sent is copied, and sent from the copy.
  bool give_up(ShmOperation& op);
  // The same, of a peer that is gone.
  void forget(ShmOperation& op);

  // Ends what was sent by reference and is taken. True: something was.
  bool settle();
  // Move what can be moved; true: something was. The peer is woken if it sleeps. Pulling stops
  // after a message, so that what its end sets free is posted before the next one comes.
  bool push();
  bool pull();

  void ring_bell() const;

 private:
  // The rest of a message that was given up.
  struct Orphan {
    ShmOperation op;
    std::vector<std::byte> rest;
  };

  bool refer(ShmOperation& op);
  bool take_back(std::uint64_t until);
  bool take_referred(const ShmFrame& frame);

  const int peer_;
  const bool sleeper_pays_;
  ShmInbox& inbox_;
  ShmRing* const in_;
  ShmRing* const out_;
  ShmSeat* const seat_;
  const ShmWindows* windows_;
  std::deque<ShmOperation*> outgoing_;
  std::unique_ptr<Orphan> orphan_;  // the first of them
  // Sent by reference: ends when the peer has read the ring up to here.
  struct Referred {
    ShmOperation* op;
    std::uint64_t until;
  };
  std::deque<Referred> referred_;
  bool arriving_ = false;  // a message is half read
  std::size_t left_ = 0;   // of its bytes
  ShmLanding landing_;
  int held_ = 0;  // how often a reference at the ring's end found no receive
};

}  // namespace lockstep
