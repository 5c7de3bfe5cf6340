// The messages of gossip: weights with a mass, one way, on the background's lane. One job runs from
// go() to rest(). It is always inside a call, so that what others send arrives while this rank
// computes, and the rank's thread rings when there is something to send. Nobody waits for a peer
// before all come to rest, and a peer that is gone stops nobody.
//
// Memory is bounded: what has arrived and is not yet taken is one mean by masses, and so is what is
// to be sent to a peer that kMostQueued messages wait for.
//
// Used by a rank and its own background at once, and owned by both: the job may outlive the
// strategy that posted it by a moment.
#pragma once

#include <atomic>
#include <list>
#include <optional>
#include <vector>

#include "collectives/scratch.h"
#include "strategies/audit/mix_audit.h"
#include "strategies/push_code.h"
#include "transport/rank.h"

namespace lockstep {

// Goes ahead of the weights, which may be hollow.
struct GossipHead {
  static constexpr int kStepBits = 16;

  std::uint64_t mass_and_step = 0;  // the sender's step, modulo 2^16, in the lowest bits
  // Of the weights, where they come from, as the message says them; sent under the audit only.
  Projection proof = {};

  static GossipHead of(std::uint64_t mass, std::uint64_t step, const Projection& proof) {
    return {mass << kStepBits | (step & ((1u << kStepBits) - 1)), proof};
  }
  std::uint64_t mass() const { return mass_and_step >> kStepBits; }
  // How far the sender's step was from this one.
  std::uint64_t steps_from(std::uint64_t step) const;
};

class GossipMail {
 public:
  // What has arrived, as one: the mean of its parts by their masses.
  struct Parcel {
    struct Part {
      int from;
      GossipHead head;
    };
    std::vector<Part> parts = {};
    std::uint64_t mass = 0;
    Scratch x;
  };

  // For weights like these, which travel by that code. Under the audit heads are sent whole, else
  // their 8 bytes of mass.
  GossipMail(const Rank& rank, Values weights, std::unique_ptr<PushCode> code, const MixAudit&);
  GossipMail(const GossipMail&) = delete;

  // The job: until rest_when_sent() has been called, all peers rest or are gone, and nothing is
  // under way; or until abandon().
  void work(Transport& lane);

  // For the rank's thread. Those that live and train, without this rank:
  std::vector<int> others();
  // A copy of x is sent. False: it was merged with what waits for that peer. Ring after it.
  bool put(int to, const GossipHead&, Values x);
  // All that has arrived, if anything has. Its memory is this one's again at the next call.
  Parcel* take();
  // This rank takes no more steps, and nothing more will be put. Ring after it.
  void rest_when_sent();
  // All rest and have met: they are about to train again.
  void go();
  // Seconds, so far, in which messages were under way while this rank trained.
  double exchanging_s();
  // So far, what the code cost and saved.
  Coding coding();
  // While no job runs: what of the code must survive in a checkpoint.
  PushCode& code() { return *code_; }
  // Has the job thrown?
  bool failed() const { return failed_; }
  // The strategy goes away, and the job when it is rung.
  void abandon() { abandoned_ = true; }

 private:
  // So many that a job which has to wait for a core on a busy machine merges nothing.
  static constexpr int kMostQueued = 8;

  class Job;
  struct Outgoing {
    int to;
    GossipHead head;
    Scratch x;
  };

  // Takes in what a job received into `x`, which then is other memory.
  void received(int from, const GossipHead&, Scratch& x);
  Outgoing idle_one();

  Transport& peers_;
  Clock& clock_;
  Lock& lock_;
  const MixAudit proof_;
  const std::size_t head_bytes_;
  const Values pattern_;  // what buffers are like; its memory is not touched
  // Under the lock:
  std::vector<bool> gone_, rests_;  // by peer
  std::list<Outgoing> outbox_, idle_;
  Parcel inbox_;
  bool resting_ = false;
  double exchanging_s_ = 0;
  Coding coding_;
  // The job's, while there is one.
  const std::unique_ptr<PushCode> code_;
  // The rank's own.
  Parcel taken_;
  std::atomic<bool> failed_ = false, abandoned_ = false;
};

}  // namespace lockstep
