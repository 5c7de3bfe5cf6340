// Deep Gradient Compression (Lin et al., ICLR 2018): momentum is applied before numbers are sent,
// not after, since a late gradient has missed the steps in which momentum would have repeated it.
// Each worker keeps u, its momentum, and v, what is not sent yet:
//
//   g = gradient, cut down to a norm of clip / sqrt(workers), + weight_decay * weights
//   u = momentum u + g,  v = v + u          (Nesterov's: u = momentum (u + g),  v = v + u + g)
//   send the largest of v; there v = 0, and with masking u = 0
// All then step by plain SGD with the mean over workers: momentum and weight decay are done here.
// With momentum 0 the sum of messages and v is the sum of all g. The authors' own code leaves out
// tensors of one dimension, which go as they are and take momentum after the mean; here they are
// selected from like all others, so that what is sent is one choice among all numbers of a bucket.
//
// Warm-up: the part that is sent falls from epoch to epoch, ratio^(1/5), ratio^(2/5), …, which for
// 0.001 is the paper's 25, 6.3, 1.6, 0.4 and 0.1 %. Here the four steps take a quarter of `warmup`
// each. What is cut down is the norm of what is encoded: of a bucket, where gradients come in
// several.
#include <algorithm>
#include <array>
#include <cmath>

#include "compression/kernels.h"
#include "compression/registry.h"
#include "compression/selection.h"
#include "compression/sparse.h"
#include "compression/topk.h"
#include "core/error.h"

namespace lockstep {
namespace {

constexpr int kWarmUpSteps = 4;

struct DgcRule {
  double ratio, warmup_epochs, clip;
  bool masking;

  double ratio_at(double epoch) const {
    if (epoch >= warmup_epochs) return ratio;
    const double step = std::floor(kWarmUpSteps * epoch / warmup_epochs);
    return std::pow(ratio, (step + 1) / (kWarmUpSteps + 1));
  }
};

class DeepGradients final : public Sparse {
 public:
  DeepGradients(const DgcRule& rule, std::span<const Values> memories, const OptimiserTerms& terms)
      : rule_(rule), momentum_(memories[0]), unsent_(memories[1]), terms_(terms) {}

  std::size_t most_bytes(std::size_t count) const override {
    return kPair * top_count(rule_.ratio_at(0), 0, count);
  }

 protected:
  std::size_t write(std::span<const float> gradients, std::byte* message,
                    const Draw& draw) override {
    check_memories(gradients.size());
    auto* u = reinterpret_cast<float*>(momentum_.bytes().data);
    auto* v = reinterpret_cast<float*>(unsent_.bytes().data);
    code_kernels().correct(correction_for(gradients), gradients.data(),
                           reinterpret_cast<const float*>(terms_.weights.bytes().data), u, v,
                           gradients.size());
    const std::size_t bytes = Sparse::write({v, gradients.size()}, message, draw);
    for (const std::uint32_t i : indices_in({message, bytes})) {
      v[i] = 0;
      if (rule_.masking) u[i] = 0;
    }
    return bytes;
  }
  std::size_t choose(std::span<const float> numbers, const Draw& draw,
                     std::uint32_t* indices) override {
    const std::size_t k = count_at(draw, numbers.size());
    selection_.top(numbers, k, 0, indices);
    return k;
  }
  std::size_t hollow_bytes(std::size_t count, const Draw& draw) const override {
    return kPair * count_at(draw, count);
  }

 private:
  std::size_t count_at(const Draw& draw, std::size_t count) const {
    const double epoch = static_cast<double>(draw.step) / terms_.steps_per_epoch;
    return top_count(rule_.ratio_at(epoch), 0, count);
  }
  Correction correction_for(std::span<const float> gradients) const {
    Correction c{1, static_cast<float>(terms_.weight_decay), static_cast<float>(terms_.momentum),
                 terms_.nesterov};
    if (rule_.clip == 0) return c;
    const double most = rule_.clip / std::sqrt(terms_.workers);
    const double norm =
        std::sqrt(code_kernels().sum_of_squares(gradients.data(), gradients.size()));
    if (norm > most) c.scale = static_cast<float>(most / norm);
    return c;
  }
  void check_memories(std::size_t count) const {
    const auto fits = [count](Values values) {
      return values.count() == count && values.type() == Type::fp32 && !values.is_hollow();
    };
    if (!fits(momentum_) || !fits(unsent_) || (terms_.weight_decay != 0 && !fits(terms_.weights)))
      throw InternalError(
          fmt::format("dgc of {} gradients with {} momenta, {} numbers not sent "
                      "yet and {} weights",
                      count, momentum_.count(), unsent_.count(), terms_.weights.count()));
  }

  const DgcRule rule_;
  const Values momentum_, unsent_;
  const OptimiserTerms terms_;
  Selection selection_;
};

}  // namespace

Compression dgc_compression(const Options& options) {
  DgcRule rule{above_zero(options, "ratio", 1), options.number("warmup"), options.number("clip"),
               options.flag("masking")};
  if (!(rule.warmup_epochs >= 0) || !(rule.clip >= 0))
    throw UsageError(fmt::format("'dgc' with warmup {} and clip {}: both are at least 0",
                                 rule.warmup_epochs, rule.clip));
  Compression c;
  c.averaging = Averaging::gathered;
  c.needs_sgd = true;
  c.clip = rule.clip;
  c.squared_error = [rule](std::size_t) { return 1 - rule.ratio; };
  c.make = [rule] { return make_topk(rule.ratio_at(0), 0); };
  c.memories = 2;
  c.remember = [rule](Compressor&, std::span<const Values> memories, const OptimiserTerms& terms) {
    return std::make_unique<DeepGradients>(rule, memories, terms);
  };
  return c;
}

}  // namespace lockstep
