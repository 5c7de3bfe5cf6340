#include "compression/error_feedback.h"

#include "core/error.h"

namespace lockstep {

ErrorFeedback::ErrorFeedback(Compressor& code, Values memory, bool feeds_back)
    : code_(code), memory_(memory), feeds_back_(feeds_back) {}

std::size_t ErrorFeedback::write(std::span<const float> numbers, std::byte* message,
                                 const Draw& draw) {
  if (memory_.count() != numbers.size() || memory_.type() != Type::fp32 || memory_.is_hollow())
    throw InternalError(fmt::format("a memory of {} {} numbers for {} in fp32", memory_.count(),
                                    name_of(memory_.type()), numbers.size()));
  const ConstBytes own(numbers.data(), numbers.size_bytes());
  feeds_back_ ? combine(memory_.as(Op::sum), own) : copy(memory_.bytes(), own);
  const std::size_t bytes =
      code_.encode(memory_, {message, code_.most_bytes(numbers.size())}, draw);
  code_.add({message, bytes}, draw, -1, memory_);
  return bytes;
}

void ErrorFeedback::read(ConstBytes message, const Draw& of, float factor, std::span<float> into,
                         Into how) {
  const Values numbers(into.data(), into.size(), Type::fp32);
  if (how == Into::add)
    code_.add(message, of, factor, numbers);
  else
    code_.decode(message, of, numbers);
}

}  // namespace lockstep
