// Deep Gradient Compression against what it is defined by, and its special cases.
#include <gtest/gtest.h>

#include "core/error.h"
#include "specs.h"

namespace lockstep {
namespace {

// One worker: what it sends, step by step.
class Worker {
 public:
  Worker(const std::string& spec, std::size_t count, OptimiserTerms terms = {})
      : compression_(compression(spec)),
        code_(compression_.make()),
        u(count),
        v(count),
        memories_{values(u), values(v)},
        dgc_(compression_.remember(*code_, memories_, terms)) {}

  // The numbers that others decode.
  Numbers send(const Numbers& gradients) {
    const Draw draw{0, 0, step_++};
    message = encoded(*dgc_, gradients, draw);
    return decoded(*code_, message, gradients.size(), draw);
  }
  std::size_t hollow_bytes(std::uint64_t step) {
    return dgc_->encode(Values::hollow(u.size(), Type::fp32), {nullptr, dgc_->most_bytes(u.size())},
                        {0, 0, step});
  }

  Message message;

 private:
  const Compression compression_;
  const std::unique_ptr<Compressor> code_;

 public:
  Numbers u, v;

 private:
  const std::vector<Values> memories_;
  const std::unique_ptr<Compressor> dgc_;
  std::uint64_t step_ = 0;
};

OptimiserTerms with_momentum(double momentum, bool nesterov = false) {
  OptimiserTerms terms;
  terms.momentum = momentum;
  terms.nesterov = nesterov;
  return terms;
}

TEST(Dgc, IsWhatThePaperSays) {
  Worker worker("dgc:ratio=0.25,warmup=0", 4, with_momentum(0.5));
  EXPECT_EQ(worker.send({1, 2, -8, 4}), (Numbers{0, 0, -8, 0}));
  EXPECT_EQ(worker.u, (Numbers{1, 2, 0, 4}));
  EXPECT_EQ(worker.v, (Numbers{1, 2, 0, 4}));
  // u = 0.5 u + g, v = v + u.
  EXPECT_EQ(worker.send({1, 0, 1, 0}), (Numbers{0, 0, 0, 6}));
  EXPECT_EQ(worker.u, (Numbers{1.5, 1, 1, 0}));
  EXPECT_EQ(worker.v, (Numbers{2.5, 3, 1, 0}));
}

TEST(Dgc, WithoutMomentumNothingIsLost) {
  Worker worker("dgc:ratio=0.02,warmup=0", 333);
  Numbers sent(333), given(333);
  for (std::uint64_t step = 0; step < 50; ++step) {
    const Numbers g = whole_numbers(333, step), message = worker.send(g);
    for (std::size_t i = 0; i < g.size(); ++i) {
      sent[i] += message[i];
      given[i] += g[i];
    }
  }
  for (std::size_t i = 0; i < sent.size(); ++i) EXPECT_EQ(sent[i] + worker.v[i], given[i]) << i;
}

// All is sent and momentum is not masked: plain steps by what is sent are those of SGD with
// momentum (momenta are powers of two, so that all is exact).
TEST(Dgc, SendingAllWithoutMaskingIsSgdWithMomentum) {
  for (const bool nesterov : {false, true}) {
    Worker worker("dgc:ratio=1,warmup=0,masking=off", 77, with_momentum(0.5, nesterov));
    Numbers momentum(77);
    for (std::uint64_t step = 0; step < 10; ++step) {
      const Numbers g = whole_numbers(77, step), sent = worker.send(g);
      for (std::size_t i = 0; i < g.size(); ++i) {
        momentum[i] = 0.5f * momentum[i] + g[i];
        ASSERT_EQ(sent[i], nesterov ? g[i] + 0.5f * momentum[i] : momentum[i]) << step << " " << i;
      }
    }
  }
}

// Masking forgets all momentum then: not to be taken for a baseline.
TEST(Dgc, SendingAllWithMaskingIsPlainSgd) {
  Worker worker("dgc:ratio=1,warmup=0", 77, with_momentum(0.9));
  for (std::uint64_t step = 0; step < 5; ++step) {
    const Numbers g = normal_numbers(77, step);
    EXPECT_EQ(worker.send(g), g);
  }
}

TEST(Dgc, WeightDecayEntersBeforeAccumulation) {
  OptimiserTerms terms = with_momentum(0.5);
  Numbers weights = {2, 4};
  terms.weight_decay = 0.25;
  terms.weights = values(weights);
  Worker worker("dgc:ratio=0.5,warmup=0", 2, terms);
  EXPECT_EQ(worker.send({1, 0}), (Numbers{1.5, 0}));
  EXPECT_EQ(worker.u, (Numbers{0, 1}));
  EXPECT_EQ(worker.send({0, 0}), (Numbers{0, 2.5})) << "0.5 * 1 + 1 on top of 1";
}

TEST(Dgc, CutsGradientsDownToTheirShareOfTheNorm) {
  OptimiserTerms terms;
  terms.workers = 4;
  Worker worker("dgc:ratio=1,warmup=0,clip=5", 2, terms);
  const Numbers cut = worker.send({30, 40});
  EXPECT_FLOAT_EQ(cut[0], 1.5);
  EXPECT_FLOAT_EQ(cut[1], 2);
  EXPECT_EQ(worker.send({1, 2}), (Numbers{1, 2})) << "short ones stay as they are";
}

TEST(Dgc, SendsLessAndLessDuringWarmUp) {
  OptimiserTerms terms;
  terms.steps_per_epoch = 2;
  Worker worker("dgc:ratio=0.001,warmup=4", 10'000, terms);
  const std::vector<std::size_t> expected = {2512, 2512, 631, 631, 159, 159, 40, 40, 10, 10};
  for (std::uint64_t step = 0; step < expected.size(); ++step) {
    worker.send(normal_numbers(10'000, step));
    EXPECT_EQ(worker.message.size, 8 * expected[step]) << step;
    EXPECT_EQ(worker.hollow_bytes(step), 8 * expected[step]) << step;
  }
}

TEST(Dgc, SendsANanAtOnceAndRefusesMemoriesOfAnotherLength) {
  Worker worker("dgc:warmup=0,clip=1", 1000, with_momentum(0.9));
  Numbers g = normal_numbers(1000, 1);
  g[500] = NAN;
  EXPECT_TRUE(std::isnan(worker.send(g)[500]));
  EXPECT_THROW(worker.send(Numbers(999)), InternalError);
}

}  // namespace
}  // namespace lockstep
