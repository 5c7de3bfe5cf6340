#include "compression/compression.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "compression/error_feedback.h"
#include "core/error.h"

namespace lockstep {

double Compression::most_error(std::size_t count) const {
  if (draws && !most_squared_error) return std::numeric_limits<double>::infinity();
  const auto& square = most_squared_error ? most_squared_error : squared_error;
  return std::sqrt(std::max(square(1), square(count)));
}

std::unique_ptr<Compressor> remembering(const Compression& compression, Compressor& code,
                                        std::span<const Values> memories,
                                        const OptimiserTerms& terms) {
  if (memories.empty()) return nullptr;
  if (compression.memories > 0) return compression.remember(code, memories, terms);
  return std::make_unique<ErrorFeedback>(code, memories[0], false);
}

Values values_in(const Compression& compression, Bytes message, Op op) {
  if (compression.averaging != Averaging::additive && compression.averaging != Averaging::seeded)
    throw InternalError("the messages of this compressor are no numbers to add up");
  return {message.data, message.size / size_of(compression.type), compression.type, op};
}

void vote(Values sums) {
  if (sums.type() != Type::fp32)
    throw InternalError(fmt::format("a vote on {} numbers: fp32 is due", name_of(sums.type())));
  if (sums.is_hollow()) return;
  auto* v = reinterpret_cast<float*>(sums.bytes().data);
  for (std::size_t i = 0; i < sums.count(); ++i)
    v[i] = v[i] >= 0 ? 1.f : v[i] < 0 ? -1.f : v[i];  // a NaN is neither
}

}  // namespace lockstep
