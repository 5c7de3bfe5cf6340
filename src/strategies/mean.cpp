#include "strategies/mean.h"

#include <optional>
#include <utility>

#include "strategies/average.h"

namespace lockstep {
namespace {

// One all-reduce of all numbers when they are there, in place.
class ExactMean final : public Mean {
 public:
  ExactMean(const Crew& crew, Purpose of) : crew_(crew), of_(of) {}

  void begin(Values values, std::span<const Parameter>) override { values_ = values; }
  std::uint64_t bytes_sent(int rank, std::size_t count) const override {
    const bool known = values_ && values_->count() == count;
    return average_bytes(crew_, rank, known ? *values_ : Values::hollow(count, Type::fp32));
  }

 private:
  void opened(const Step& step, std::span<const std::size_t> samples) override {
    if (!values_) throw InternalError("a mean is to be taken of numbers that it was never told of");
    tag_ = tag_of(of_, step);
    samples_.assign(samples.begin(), samples.end());
  }
  void finish() override {
    const double share = shares_of(samples_)[crew_.rank.rank()];
    if (share != 1) scale(*values_, share);
    crew_.collective.run(crew_.rank.peers, tag_, values_->as(Op::mean));
  }

  const Crew crew_;
  const Purpose of_;
  std::optional<Values> values_;
  // Of the exchange that is open.
  Tag tag_;
  std::vector<std::size_t> samples_;
};

std::vector<OfMemory> counted_from(std::size_t first, std::vector<OfMemory> memories) {
  for (OfMemory& memory : memories) memory.which += first;
  return memories;
}

}  // namespace

void Mean::open(const Step& step, std::span<const std::size_t> samples) {
  is_open_ = true;
  opened(step, samples);
}

void Mean::run(const Step& step, std::span<const std::size_t> samples) {
  if (!std::exchange(is_open_, false)) opened(step, samples);
  finish();
}

Mean::Sum Mean::stated(std::span<const std::size_t> samples) const {
  return {mean_factors(samples, static_cast<int>(samples.size()))};
}

const Figures& Mean::figures() const {
  static const Figures kNone;
  return kNone;
}

void state_gradients(Flow& flow, const Mean::Sum& sum, std::size_t first) {
  flow.gradients = sum.numbers;
  flow.memories_in_gradients = counted_from(first, sum.memories);
  flow.gradients_hold = sum.holds;
}

void state_weights(Flow& flow, const Mean::Sum& sum, int ranks, std::size_t first) {
  flow.weights = sum.numbers;
  flow.weights.resize(ranks);
  flow.memories_in_weights = counted_from(first, sum.memories);
  flow.weights_hold = sum.holds;
}

Flow flow_of_memory(const Mean::Sum& sum, Purpose of, std::size_t count, int ranks,
                    std::size_t first) {
  Flow flow{{0, count}, {}, std::vector<double>(ranks)};
  if (of == Purpose::weights) {
    state_weights(flow, sum, ranks, first);
  } else {
    flow.gradients = sum.numbers;
    flow.memories_in_weights = counted_from(first, sum.memories);
    flow.weights_hold = sum.holds;
  }
  return flow;
}

Flow flow_of_kept_memory(std::size_t which, std::size_t count, int ranks) {
  return {{0, count},
          {},
          std::vector<double>(ranks),
          {},
          only(static_cast<int>(which), static_cast<int>(which) + 1)};
}

std::unique_ptr<Mean> make_mean(const Crew& crew, Purpose of) {
  return crew.means ? crew.means(crew, of) : std::make_unique<ExactMean>(crew, of);
}

}  // namespace lockstep
