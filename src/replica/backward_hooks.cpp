#include "replica/backward_hooks.h"

namespace lockstep {

class BackwardHooks::Hook final : public torch::autograd::FunctionPostHook {
 public:
  Hook(BackwardHooks& owner, std::size_t parameter) : owner_(owner), parameter_(parameter) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    owner_.fired(parameter_);
    return outputs;
  }

 private:
  BackwardHooks& owner_;
  std::size_t parameter_;
};

BackwardHooks::BackwardHooks(const FlatModel& model, Ready ready)
    : parameters_(model.parameters()),
      ready_(std::move(ready)),
      reported_(parameters_.size(), false) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    accumulators_.push_back(torch::autograd::impl::grad_accumulator(model.tensors()[i]));
    keys_.push_back(accumulators_[i]->add_post_hook(std::make_unique<Hook>(*this, i)));
  }
}

// A graph that is still alive would keep the accumulators, and hooks into what is gone.
BackwardHooks::~BackwardHooks() {
  for (std::size_t i = 0; i < keys_.size(); ++i) accumulators_[i]->del_post_hook(keys_[i]);
}

void BackwardHooks::fired(std::size_t parameter) {
  if (!listens_) return;
  if (reported_[parameter]) {
    stale_ = true;
    return;
  }
  reported_[parameter] = true;
  ready_(parameters_[parameter].slice);
}

void BackwardHooks::flush() {
  Slice run;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (reported_[i]) continue;
    const Slice next = parameters_[i].slice;
    if (run.count > 0 && run.end() != next.begin) ready_(std::exchange(run, Slice{}));
    if (run.count == 0) run.begin = next.begin;
    run.count += next.count;
  }
  forget();
  if (run.count > 0) ready_(run);
}

void BackwardHooks::forget() {
  reported_.assign(parameters_.size(), false);
  stale_ = false;
}

}  // namespace lockstep
