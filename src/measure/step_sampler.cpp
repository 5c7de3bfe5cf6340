// Samples of a rank that shares its process: taken by the rank itself, at step ends.
#include "measure/sampler.h"

namespace lockstep {
namespace {

class StepSampler final : public Sampler {
 public:
  StepSampler(const SamplerOptions& options, const Clock& clock)
      : clock_(clock),
        period_s_(options.period_s),
        origin_s_(options.origin_s),
        file_(options.path, options.header),
        next_s_(clock.now()) {}
  ~StepSampler() override {
    try {
      if (!finished_) file_.flush();
    } catch (const std::exception&) {  // the run failed of something else already
    }
  }

  bool due() const override { return clock_.now() >= next_s_; }

  void post(const RankProgress& progress) override {
    add(progress);
    next_s_ = clock_.now() + period_s_;
    if (++kept_ % kKept == 0) file_.flush();
  }

  void finish() override {
    finished_ = true;
    file_.flush();
  }

  std::optional<MemoryPeaks> peaks() const override { return {}; }
  double cost_s() const override { return 0; }

 private:
  static constexpr int kKept = 64;  // virtual time says nothing about when to write

  void add(const RankProgress& progress) {
    Sample sample;
    sample.t = clock_.now() - origin_s_;
    sample.rank = progress;
    file_.add(sample);
  }

  const Clock& clock_;
  const double period_s_, origin_s_;
  SampleFile file_;
  double next_s_;
  int kept_ = 0;
  bool finished_ = false;
};

}  // namespace

std::unique_ptr<Sampler> sampler_of_steps(const SamplerOptions& options, const Clock& clock) {
  return std::make_unique<StepSampler>(options, clock);
}

}  // namespace lockstep
