// Tells, while backward runs, when a part of the flat gradients is final.
#pragma once

#include <functional>

#include "replica/flat_model.h"

namespace lockstep {

class BackwardHooks {
 public:
  // Called from inside backward, on its thread, once for each parameter that took part; a
  // parameter used in several places is final after the last. What it throws leaves backward().
  using Ready = std::function<void(Slice)>;

  // The model must outlive this. To be destroyed outside backward.
  BackwardHooks(const FlatModel&, Ready);
  ~BackwardHooks();
  BackwardHooks(const BackwardHooks&) = delete;
  BackwardHooks& operator=(const BackwardHooks&) = delete;

  // After backward returned or threw: reports what took no part in it, neighbours as one, and
  // starts over.
  void flush();
  // Starts over without reports: after a backward that failed.
  void forget();
  // Off: gradients are not final yet, since another backward will add to them, and nothing is
  // reported. On at first.
  void listen(bool on) { listens_ = on; }
  // Has another backward changed what was reported as final, since it last started over?
  bool is_stale() const { return stale_; }

 private:
  class Hook;
  void fired(std::size_t parameter);

  std::span<const Parameter> parameters_;
  Ready ready_;
  std::vector<bool> reported_;
  bool stale_ = false, listens_ = true;
  // A parameter holds its accumulator weakly; with the last graph it would go, and the hook too.
  std::vector<std::shared_ptr<torch::autograd::Node>> accumulators_;
  std::vector<std::uintptr_t> keys_;  // of the hooks in them
};

}  // namespace lockstep
