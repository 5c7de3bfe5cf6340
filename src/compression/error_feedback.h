// Error feedback: what a message leaves out is kept and joins the next one, so that nothing is
// lost, only late. For each message: p = numbers + memory, send p, memory = p - what that decodes
// to. The sum of decoded messages and the memory is the sum of all numbers, as exactly as they are
// added. (Seide et al., Interspeech 2014; Karimireddy et al., ICML 2019.)
//
// The memory is the caller's: fp32, as many as there are numbers, zeros before the first message.
// It is part of a checkpoint, and never averaged over ranks. It is in units of the numbers, so a
// change of the learning rate does not concern it.
//
// Without feedback nothing is added before a message, and the memory only says what that lost.
#pragma once

#include "compression/compressor.h"

namespace lockstep {

class ErrorFeedback final : public Compressor {
 public:
  // Both outlive this.
  ErrorFeedback(Compressor& code, Values memory, bool feeds_back = true);

  std::size_t most_bytes(std::size_t count) const override { return code_.most_bytes(count); }

 protected:
  std::size_t write(std::span<const float> numbers, std::byte* message, const Draw& draw) override;
  void read(ConstBytes message, const Draw& of, float factor, std::span<float> into,
            Into how) override;
  std::size_t hollow_bytes(std::size_t count, const Draw& draw) const override {
    const Values numbers = Values::hollow(count, Type::fp32);
    return code_.encode(numbers, {nullptr, code_.most_bytes(count)}, draw);
  }

 private:
  Compressor& code_;
  const Values memory_;
  const bool feeds_back_;
};

}  // namespace lockstep
