// What workers and servers of a central model say to each other. A worker says what it brings and
// what it wants; numbers follow. A server that has something to give says how fresh it is; numbers
// follow. Words go under Purpose::control, so that the ledger's gradients and weights are the
// numbers alone.
#pragma once

#include <cstdint>

#include "core/values.h"
#include "strategies/audit/mix_audit.h"
#include "strategies/push_code.h"
#include "transport/channels.h"

namespace lockstep {

struct CentralRequest {
  enum class Wants : std::uint32_t {
    nothing,
    weights,  // to go on with, when the server's rule allows it
    model,    // to evaluate: answered at once, and changes nothing
    rest,     // the last word before all meet; answered with the model when all have said it
    opens,    // see FedPush: numbers follow as they become final, and then the word that ends them
  };
  Wants wants = Wants::nothing;
  // Not 0: numbers follow, one for each parameter of the shard; the how manieth of this worker's.
  std::uint32_t brings = 0;
  // The worker's; at rest: how often it has brought numbers; where it opens a push: how many
  // buckets the plan has that goes ahead of it, 0: it is cut as the last one.
  std::uint64_t step = 0;
  std::uint64_t oldest = 0;  // wants weights with at least this clock, see CentralAnswer
  std::uint64_t stamp = 0;   // brings what it made of weights with this clock
  Projection proof = {};     // of the numbers, for the audit
};

struct CentralAnswer {
  std::uint64_t clock = 0;   // every worker's updates of all steps before this one are in
  std::uint64_t pushes = 0;  // so many of the worker's own are in
  double held_s = 0;         // how long the server's rule kept the worker waiting
  // For the audit: of the numbers, and of all that the worker brought and that is in.
  Projection proof = {}, own = {};
};

// An answer with weights to go on with may come after one with a model that was asked for later.
using channels::kCentralAnswer, channels::kCentralModel, channels::kCentralPlan,
    channels::kCentralRequest, channels::kCentralTurn;

// How many numbers of the model each bucket has, from the last of them to the first (see
// buckets.h).
using CentralPlan = std::vector<std::uint64_t>;

// Workers that compute equally long push all at once, and a line that all share serves them all
// late and lets them out together, to meet again in the next step. So long pushes wait until the
// server says whose turn it is: then they come one after the other, and the workers spread out.
// Such a push goes in two messages, and the server tells the next worker when the first is there:
// what is left fills the line until the next push comes. A push that begins while its worker
// computes takes them part by part (see fed_push.h): whose turn it was for all of it would keep the
// others waiting for as long as it computes. Not where workers push while answers are on their way
// (see ssp.cpp).
inline bool takes_turns(const PushCode& code, Values shard) {
  return code.most_bytes(shard) >= 256 * 1024;
}
// The parts of a shard that are one message each.
inline std::vector<Slice> parts_of_push(std::size_t count, bool in_turn) {
  if (!in_turn) return {{0, count}};
  const std::size_t first = count - count / 8;
  return {{0, first}, {first, count - first}};
}
inline std::vector<Slice> parts_of_push(const PushCode& code, Values part) {
  return parts_of_push(part.count(), takes_turns(code, part));
}
// With which a worker that has opened a push asks for its turn: how many messages go in it.
using CentralTurn = std::uint64_t;
// A push as it goes to each server, in parts. Made on the rank's thread, sent on any.
using Pushed = std::vector<std::vector<PushMessage>>;

inline Tag central_numbers(Purpose purpose, Values values) {
  return Tag{purpose}.with_format(values.format());
}

}  // namespace lockstep
