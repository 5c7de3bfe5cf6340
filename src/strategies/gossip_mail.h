// The messages of gossip: weights with a mass, one way. Nothing here waits for a peer before all
// come to rest, and a peer that is gone stops nobody.
#pragma once

#include <functional>
#include <list>
#include <optional>
#include <vector>

#include "collectives/scratch.h"
#include "strategies/projection.h"
#include "transport/rank.h"

namespace lockstep {

// Goes ahead of the weights, which may be hollow.
struct GossipHead {
  static constexpr int kStepBits = 16;

  std::uint64_t mass_and_step = 0;  // the sender's step, modulo 2^16, in the lowest bits
  Projection proof = {};            // of the weights; sent under the audit only

  static GossipHead of(std::uint64_t mass, std::uint64_t step, const Projection& proof) {
    return {mass << kStepBits | (step & ((1u << kStepBits) - 1)), proof};
  }
  std::uint64_t mass() const { return mass_and_step >> kStepBits; }
  // How far the sender's step was from this one.
  std::uint64_t steps_from(std::uint64_t step) const;
};

class GossipMail {
 public:
  // Takes in a message of `from`; x is the mail's memory, free to be written until this returns.
  using Take = std::function<void(int from, const GossipHead&, Values x)>;

  // For weights like these. With proofs a head is sent whole, else its 8 bytes of mass.
  GossipMail(const Rank& rank, Values weights, bool with_proofs);
  GossipMail(const GossipMail&) = delete;
  ~GossipMail();

  // All that has arrived.
  void take_what_is_here(const Take&);
  // Those that live, without this rank.
  std::vector<int> others();
  // Has the last message to this one left yet? Else send() would need more memory, without end.
  bool is_free(int to);
  // A copy of x.
  void send(int to, const GossipHead&, Values x);
  // Collective over the living: returns when all of them rest, all that is under way to this rank
  // is taken, and all it sent has left.
  void rest(const Take&);

 private:
  struct Sending {
    int to;
    GossipHead head;
    Scratch x;
    Request head_sent{}, x_sent{};
  };
  struct Coming {
    int from;
    Request x;
  };

  bool is_other(int peer) const { return peer != lane_.rank() && !gone_[peer]; }
  void give_up(Request) const;
  template <class F>
  bool talk(int peer, F&&);
  bool take_next(const Take&);
  void open_next(int peer);
  bool land(const Take&, bool wait);
  void collect_sent(bool wait);

  Transport& lane_;
  const std::size_t head_bytes_;
  std::vector<bool> gone_, rests_;  // by peer
  // The message whose head is here: one at a time, so memory for one.
  GossipHead head_;
  Scratch inbox_;
  std::optional<Coming> coming_;
  std::list<Sending> sending_, idle_;
};

}  // namespace lockstep
