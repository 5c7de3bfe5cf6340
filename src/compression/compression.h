// What is to be known of a way to compress before anything is encoded: what a spec
// NAME:key=value,… stands for.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "compression/compressor.h"
#include "core/options.h"

namespace lockstep {

// How ranks make an average of messages.
enum class Averaging : std::uint8_t {
  // Every message is a Values (Compression::type), one number for each: any all-reduce adds them
  // up.
  additive,
  // Two shots: each rank sends each owner the message of the owner's chunk; the owner adds them up
  // in fp32, encodes the sum once more, sends it to all, and itself takes what it decodes to. With
  // error feedback the second message has a memory of its own, kept by the owner.
  two_shot,
  // Every rank gets all messages and adds them up in the order of ranks: index sets differ, so
  // nothing shorter can be added up on the way. With m ranks that is shorter than numbers as they
  // are where messages are shorter than 1/m of those.
  gathered,
  // As gathered, and then vote(): the sign that most ranks have.
  voted,
  // Every rank encodes the same places (Draw::shared), so a message is a Values of fewer numbers,
  // which any all-reduce adds up; the sum is decoded.
  seeded,
  // Two all-reduces of two thin matrices: low_rank.h.
  low_rank
};

struct LowRankRule {
  int rank = 1;
  double least_saving = 2;  // a matrix that shrinks by less goes as it is
  std::uint64_t start = 0;  // steps at the start of training in which all goes as it is
};

// What a run tells a compressor that takes over a part of its optimiser: dgc.
struct OptimiserTerms {
  int workers = 1;
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
  double steps_per_epoch = 1;
  Values weights = Values::hollow(0, Type::fp32);  // as many as there are gradients
};

struct Compression {
  Averaging averaging = Averaging::gathered;
  Type type = Type::fp32;  // of a message's numbers, where averaging is additive or seeded
  bool biased = true;     // is the mean of decoded messages over all draws another than the number?
  bool lossless = false;  // zeros may lose their sign
  bool draws = false;     // by random numbers; otherwise encoding is the same for every Draw
  // What it does with a number depends on the others of its tensor, and should not depend on those
  // of other tensors: where averaging is gathered, each tensor has a message of its own, which is
  // as long as it can be.
  bool by_tensor = false;
  bool needs_sgd = false;  // takes over momentum and weight decay of SGD, and fits no other rule
  // |decoded - v|^2, for random ones its mean, is at most this times |v|^2, rounding of fp32 apart;
  // infinite where there is no bound. Below 1 it is a contraction. fp16: while nothing under- or
  // overflows.
  std::function<double(std::size_t count)> squared_error;
  // The same of every draw and every number that does not overflow, together with what each number
  // may lose besides, however small it is. None: squared_error, and where it draws there is no such
  // bound.
  std::function<double(std::size_t count)> most_squared_error;
  double most_error_of_each = 0;
  // |decoded - v| is at most this times |v|, in chunks of any size up to that,
  // + most_error_of_each * sqrt(count). Infinite: there is no bound.
  double most_error(std::size_t count) const;

  // None where averaging is low_rank.
  std::function<std::unique_ptr<Compressor>()> make;
  // Vectors, as long as what is encoded, that are kept between steps: zeros at first, and part of a
  // checkpoint.
  int memories = 0;
  // `code`, made by make(), with those vectors: encodes numbers and keeps what the message lost.
  // `code` must outlive it, and may have several of these for different parts. With no memories:
  // none.
  std::function<std::unique_ptr<Compressor>(Compressor& code, std::span<const Values> memories,
                                            const OptimiserTerms&)>
      remember;
  LowRankRule low_rank;

  // Largest norm that gradients are cut down to before anything else; 0: they are not.
  double clip = 0;
  // Is what is encoded a sum of numbers and memories, with factors that are known beforehand?
  bool is_linear(const OptimiserTerms& terms) const {
    return !needs_sgd || (clip == 0 && terms.weight_decay == 0);
  }
};

// `code` with such memories: those of the compression; or one more where it has none, which then
// only says what each message lost; or none, and then nullptr. As Compression::remember.
std::unique_ptr<Compressor> remembering(const Compression&, Compressor& code,
                                        std::span<const Values> memories, const OptimiserTerms&);

// The values of a message that an all-reduce adds up. REQUIRES: averaging is additive or seeded.
Values values_in(const Compression&, Bytes message, Op op);

// v[i] = 1 where v[i] >= 0, -1 where it is below, NaN where it is NaN: of a sum of messages.
void vote(Values sums);

}  // namespace lockstep
