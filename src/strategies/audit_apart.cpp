// The audit of strategies whose ranks go apart: it follows the replica through every update and
// rest.
#include <optional>

#include "strategies/audit.h"

namespace lockstep {
namespace {

class AuditedApart final : public Strategy {
 public:
  AuditedApart(std::unique_ptr<Strategy> inner, const Crew& crew)
      : Strategy(crew), inner_(std::move(inner)) {
    proof_ = MixAudit(crew.rank);
    inner_->audit_exchanges();
  }

  void begin(Replica& replica) override { inner_->begin(replica); }
  void update(Replica& replica, const Step& step) override {
    inner_->book().follow(replica, [&](Replica& watched) { inner_->update(watched, step); });
    contributions_ = inner_->contributions();
    if (samples_) *samples_ += step.samples[crew_.rank.rank()];
    const double steps = inner_->book().steps();
    if (steps != inner_->own_steps(step))
      proof_.fail(fmt::format("step {}: its optimiser stepped {} times where the strategy says {}",
                              step.number, steps, inner_->own_steps(step)));
  }
  void serve(Replica& replica, const StepAt& step_at, std::uint64_t first,
             std::uint64_t end) override {
    inner_->serve(replica, step_at, first, end);
    contributions_ = inner_->contributions();
  }
  void go() override { inner_->go(); }
  void hand_over(Replica& replica, std::uint64_t taken) override {
    inner_->book().follow(replica, [&](Replica& watched) { inner_->hand_over(watched, taken); });
    if (inner_->book().steps() != 0) proof_.fail("its optimiser stepped when the run was over");
  }
  void rest(Replica& replica) override {
    inner_->book().follow(replica, [&](Replica& watched) { inner_->rest(watched); });
    contributions_ = inner_->contributions();
    if (inner_->book().steps() != 0) proof_.fail("its optimiser stepped while it came to rest");
  }

  void prove_at_rest(Transport& workers) override { inner_->book().prove_masses(workers); }

  void prove_own(Values own, std::uint64_t samples) const override {
    inner_->book().check_unchanged(own);
    if (samples_ && samples != *samples_)
      proof_.fail(fmt::format("it is to count by {} samples, and has had {}", samples, *samples_));
  }

  bool trains(const Step& step) const override { return inner_->trains(step); }
  void slice_ready(Slice part) override { inner_->slice_ready(part); }
  int own_steps(const Step& step) const override { return inner_->own_steps(step); }
  void read_model(Replica& replica, Values model) override { inner_->read_model(replica, model); }
  bool fetch_model(Values model) override { return inner_->fetch_model(model); }
  double mass() const override {
    const double mass = inner_->mass();
    inner_->book().counts_for(mass);
    return mass;
  }
  double waited_s() const override { return inner_->waited_s(); }
  double hidden_s() const override { return inner_->hidden_s(); }
  Sends sends() const override { return inner_->sends(); }
  std::vector<Flow> flows(const Step& step, int rank, std::size_t count) const override {
    return inner_->flows(step, rank, count);
  }
  std::uint64_t bytes_sent(const Step& step, int rank, std::size_t count) const override {
    return inner_->bytes_sent(step, rank, count);
  }
  std::vector<Kept> memories() override { return inner_->memories(); }
  std::string state() const override { return inner_->state(); }
  void restore(const std::string& state) override {
    inner_->restore(state);
    inner_->book().forget();
    samples_.reset();
  }

 private:
  std::optional<std::uint64_t> samples_ = 0;  // of this worker; none where that is not known
  const std::unique_ptr<Strategy> inner_;
};

}  // namespace

std::unique_ptr<Strategy> audited_apart(std::unique_ptr<Strategy> strategy, const Crew& crew) {
  return std::make_unique<AuditedApart>(std::move(strategy), crew);
}

}  // namespace lockstep
