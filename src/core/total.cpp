#include "core/total.h"

#include <algorithm>
#include <limits>

#include "core/error.h"

namespace lockstep {
namespace {

// All operands' copies of a block stay in the first cache between being read and being overwritten.
constexpr std::size_t kBlockBytes = 4 * 1024;
// Of more operands than these longer runs are read: prefetching starts anew with each.
constexpr int kFewOperands = 8;
constexpr std::size_t kLongBlockBytes = 256 * 1024;

// One kernel reads all and writes all, so that each cache line is fetched once.
void join_fused(Values own, std::span<std::byte* const> others) {
  std::byte* all[kMostFused] = {own.bytes().data};
  std::copy(others.begin(), others.end(), all + 1);
  const auto& rows = own.op() == Op::mean ? kernels().mean_everywhere : kernels().add_everywhere;
  rows[kernel_row(own.type())][others.size() + 1](all, own.bytes().size);
}

}  // namespace

Total::Way Total::way_of(Values own, int operands, int ranks) {
  const std::size_t type = kernel_row(own.type());
  const Kernels& k = kernels();
  if (own.op() == Op::min) return {k.min[type], k.min[type], k.min[type]};
  if (own.op() == Op::max) return {k.max[type], k.max[type], k.max[type]};
  const bool mean = own.op() == Op::mean && ranks > 1;
  if (operands > 2 && size_of(own.type()) == 2) {
    const Beside& beside = k.beside[type];
    return {beside.first, beside.next, mean ? beside.mean : beside.sum, true};
  }
  // Means of two and of four equal ones are right as they are.
  if (operands > 2 && operands != 4 && mean && operands == ranks && own.type() == Type::fp32)
    return {k.add[type], k.add[type], k.mean_of_all};
  return {k.add[type], k.add[type], mean ? k.mean[type] : k.add[type]};
}

Total::Total(Values own, int operands, int ranks)
    : operands_(operands), way_(way_of(own, operands, ranks)) {
  if (own.is_hollow()) return;
  // Not zeroed: it is written before it is read.
  if (way_.beside) beside_.reset(new std::byte[own.count() * sizeof(float)]);
  state_ = {own.bytes().data, beside_.get(), ranks};
}

Total::Total(Values own, Values distances)
    : operands_(std::numeric_limits<int>::max()),
      way_{kernels().first_distance, kernels().next_distance, nullptr} {
  if (own.type() != Type::fp32 || distances.type() != Type::fp32 ||
      own.count() != distances.count())
    throw InternalError(fmt::format("distances of {} {} values from {} {} ones", distances.count(),
                                    name_of(distances.type()), own.count(), name_of(own.type())));
  if (!own.is_hollow()) state_ = {own.bytes().data, distances.bytes().data};
}

Combine Total::joining(int k) const {
  if (!state_.own) return nullptr;
  return {way_.of(k, operands_), &state_};
}

void join_all(Values own, std::span<std::byte* const> others, int ranks, bool everywhere) {
  if (own.is_hollow() || own.count() == 0 || others.empty()) return;
  const int operands = static_cast<int>(others.size()) + 1;
  const bool adds = own.op() == Op::sum || (own.op() == Op::mean && ranks == operands);
  if (everywhere && adds && operands <= kMostFused) return join_fused(own, others);
  const std::size_t element = size_of(own.type());
  const bool few = everywhere || operands <= kFewOperands;
  const std::size_t most = (few ? kBlockBytes : kLongBlockBytes) / element;
  const Total::Way way = Total::way_of(own, operands, ranks);
  const std::unique_ptr<float[]> beside(way.beside ? new float[most] : nullptr);
  for (std::size_t begin = 0; begin < own.count(); begin += most) {
    const Bytes block = own.part({begin, std::min(most, own.count() - begin)}).bytes();
    const Joining state{block.data, reinterpret_cast<std::byte*>(beside.get()), ranks};
    for (int k = 1; k < operands; ++k)
      way.of(k, operands)(block.data, others[k - 1] + begin * element, block.size, &state);
    if (!everywhere) continue;
    for (std::byte* other : others) copy({other + begin * element, block.size}, block);
  }
}

}  // namespace lockstep
