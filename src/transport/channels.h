// Every number that messages of this library go under, with what it is for. Two rows can't have the
// same purpose and number: the header does not compile then. A new channel is a row here; a Tag
// with a number stands nowhere else (tests/tidy_rules.h). Numbers mean nothing but themselves and
// may change between versions: all ranks of a job run the same one.
//
// A program of one's own takes its tags by own_channel(), which no row meets.
#pragma once

#include <cstdint>

#include "core/error.h"
#include "transport/tag.h"

// name, purpose, number, what goes under it
#define LOCKSTEP_CHANNELS(CHANNEL)                                                           \
  /* transport/ */                                                                           \
  CHANNEL(kNobody, control, 0xffffff, "nothing: a probe for it lets messages move")          \
  CHANNEL(kStamps, control, 0xfffffe, "when a shaped message was sent")                      \
  CHANNEL(kMeeting, control, 0xfffff0, "where the members of a window find its memory")      \
  /* strategies/: numbers that alternate by step are two rows */                             \
  CHANNEL(kGradients, gradients, 0, "gradients in even steps, and pushes to servers")        \
  CHANNEL(kGradientsOdd, gradients, 1, "gradients in odd steps")                             \
  CHANNEL(kWeights, weights, 0, "weights in even steps, and those that servers answer with") \
  CHANNEL(kWeightsOdd, weights, 1, "weights in odd steps")                                   \
  CHANNEL(kModel, evaluation, 0, "the model of a run that is scored")                        \
  CHANNEL(kCentralRequest, control, 0x200, "a worker's word to a server")                    \
  CHANNEL(kCentralAnswer, control, 0x201, "a server's word before weights")                  \
  CHANNEL(kCentralTurn, control, 0x202, "whose turn it is to push")                          \
  CHANNEL(kCentralModel, control, 0x203, "a server's word before the model")                 \
  CHANNEL(kCentralPlan, control, 0x204, "how a worker cuts what it pushes")                  \
  CHANNEL(kHogwildRest, control, 0x210, "Hogwild: who rests")                                \
  CHANNEL(kSmaDecision, control, 0x211, "SMA: how many learners go on")                      \
  CHANNEL(kAudit, control, 0x212, "the audit's projections")                                 \
  CHANNEL(kAdPsgdNote, control, 0x213, "AD-PSGD: what comes with an exchange")               \
  CHANNEL(kAdPsgdRests, control, 0x214, "AD-PSGD: who rests")                                \
  CHANNEL(kAdPsgdActive, weights, 0x213, "AD-PSGD: weights of the one that asks")            \
  CHANNEL(kAdPsgdPassive, weights, 0x214, "AD-PSGD: weights of the one that answers")        \
  CHANNEL(kGossipHead, weights, 0x215, "gossip: the word before weights")                    \
  CHANNEL(kGossipWeights, weights, 0x216, "gossip: weights")                                 \
  CHANNEL(kRoundNotes, control, 0x217, "rounds: what a worker is given to do")               \
  CHANNEL(kRoundAnswers, control, 0x218, "rounds: what a worker has done")                   \
  CHANNEL(kRoundModelDown, weights, 0x217, "rounds: the model that a worker starts from")    \
  CHANNEL(kRoundModelUp, weights, 0x218, "rounds: the model that a worker comes back with")  \
  CHANNEL(kRoundStatisticsDown, evaluation, 0x217, "rounds: statistics of the first")        \
  CHANNEL(kRoundStatisticsUp, evaluation, 0x218, "rounds: statistics of the second")         \
  /* train/ */                                                                               \
  CHANNEL(kInitialWeights, setup, 1, "the weights that all start from")                      \
  CHANNEL(kGatheredLength, control, 0x101, "how long a gathered text is")                    \
  CHANNEL(kGatheredText, control, 0x102, "a text for rank 0")                                \
  CHANNEL(kGatheredNumbers, control, 0x103, "numbers for rank 0")                            \
  CHANNEL(kClockAsk, control, 0x104, "what time is it?")                                     \
  CHANNEL(kClockTold, control, 0x105, "the time on rank 0's clock")                          \
  CHANNEL(kTogether, control, 0x106, "a barrier of all ranks")                               \
  CHANNEL(kGatheredRow, control, 0x107, "a row of numbers for all")                          \
  CHANNEL(kOrigin, control, 0x108, "when the run began")                                     \
  CHANNEL(kHere, control, 0x109, "a rank that lives")                                        \
  CHANNEL(kLiving, control, 0x10a, "all that live")                                          \
  CHANNEL(kSnapshotDue, evaluation, 0x10b, "a model is to be scored")                        \
  CHANNEL(kEndNext, control, 0x10d, "the end of a run: who goes on")                         \
  CHANNEL(kEndCount, control, 0x10e, "the end of a run: how far a rank came")                \
  CHANNEL(kScoreWord, evaluation, 0x110, "scores: the word before a part")                   \
  CHANNEL(kScoreText, evaluation, 0x111, "scores: a text")                                   \
  CHANNEL(kScoreAbout, evaluation, 0x112, "scores: of which model")                          \
  CHANNEL(kScoreWeights, evaluation, 0x113, "scores: weights")                               \
  CHANNEL(kScoreStatistics, evaluation, 0x114, "scores: statistics")                         \
  CHANNEL(kScoreModel, evaluation, 0x115, "scores: a whole model")                           \
  /* lockstep/ */                                                                            \
  CHANNEL(kAveragerAgreement, setup, 2, "what all ranks of an averager must agree on")       \
  CHANNEL(kAveragerWeights, setup, 3, "the weights that an averager starts from")            \
  /* cli/ */                                                                                 \
  CHANNEL(kBenchBarrier, control, 1, "bench: all start together")                            \
  CHANNEL(kBenchData, gradients, 0x100, "bench: what is timed")

namespace lockstep::channels {

#define CHANNEL(name, purpose, number, what) inline constexpr Tag name{Purpose::purpose, number};
LOCKSTEP_CHANNELS(CHANNEL)
#undef CHANNEL

// Numbers from here on belong to programs that use the library.
inline constexpr std::uint32_t kFirstOwn = 0x800000, kOwnNumbers = 0x400000;
// Of evaluation, numbers from here on are what passes between stages: see test_passage_channel().
inline constexpr std::uint32_t kFirstTestPassage = 0x400000;
inline constexpr int kPassageLinks = 4096;

namespace checked {

constexpr bool all_differ() {
#define CHANNEL(name, purpose, number, what) std::uint32_t(Purpose::purpose) << 24 | (number),
  constexpr std::uint32_t keys[] = {LOCKSTEP_CHANNELS(CHANNEL)};
#undef CHANNEL
  for (const std::uint32_t& key : keys) {
    const std::uint32_t number = key & 0xffffff;
    if (number >= kFirstOwn && number < kFirstOwn + kOwnNumbers) return false;
    // See passage_channel() and test_passage_channel().
    if (key >> 24 == std::uint32_t(Purpose::activations)) return false;
    if (key >> 24 == std::uint32_t(Purpose::evaluation) && number >= kFirstTestPassage)
      return false;
    for (const std::uint32_t* other = keys; other != &key; ++other)
      if (*other == key) return false;
  }
  return true;
}
static_assert(all_differ(), "two channels have the same purpose and number");

}  // namespace checked
}  // namespace lockstep::channels

namespace lockstep {

// What passes between the stages of a pipeline goes under numbers of its own, below kFirstOwn: by
// link, replica, direction and micro-batch. Micro-batches that are kPassageMicros apart share one;
// they are sent and received in the same order.
inline constexpr int kPassageReplicas = 2, kPassageMicros = 512;
// `back`: a gradient, on its way to an earlier stage.
constexpr Tag passage_channel(int link, int replica, bool back, int micro) {
  if (link < 0 || link >= channels::kPassageLinks || replica < 0 || replica >= kPassageReplicas)
    throw UsageError(
        fmt::format("link {} of replica {} of a pipeline: there can be {} links and {} replicas",
                    link, replica, channels::kPassageLinks, kPassageReplicas));
  const int row = (link * kPassageReplicas + replica) * 2 + (back ? 1 : 0);
  return {Purpose::activations,
          static_cast<std::uint32_t>(row * kPassageMicros + micro % kPassageMicros)};
}
static_assert(channels::kPassageLinks * kPassageReplicas * 2 * kPassageMicros <=
              channels::kFirstOwn);
// The same where the test set is answered: forward alone, by the first replica.
constexpr Tag test_passage_channel(int link, int micro) {
  if (link < 0 || link >= channels::kPassageLinks)
    throw UsageError(
        fmt::format("link {} of a pipeline: there can be {}", link, channels::kPassageLinks));
  return {Purpose::evaluation,
          channels::kFirstTestPassage +
              static_cast<std::uint32_t>(link * kPassageMicros + micro % kPassageMicros)};
}

// Channel `number` of a program of one's own: 0 to kOwnNumbers - 1.
constexpr Tag own_channel(Purpose purpose, std::uint32_t number = 0) {
  if (number >= channels::kOwnNumbers)
    throw UsageError(
        fmt::format("own channel {}: numbers are 0 to {}", number, channels::kOwnNumbers - 1));
  return {purpose, channels::kFirstOwn + number};
}

}  // namespace lockstep
