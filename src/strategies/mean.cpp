#include "strategies/mean.h"

#include <optional>

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
  void finish() override { average(crew_, tag_, *values_, samples_); }

  const Crew crew_;
  const Purpose of_;
  std::optional<Values> values_;
  // Of the exchange that is open.
  Tag tag_;
  std::vector<std::size_t> samples_;
};

}  // namespace

std::unique_ptr<Mean> make_mean(const Crew& crew, Purpose of) {
  return crew.means ? crew.means(crew, of) : std::make_unique<ExactMean>(crew, of);
}

}  // namespace lockstep
