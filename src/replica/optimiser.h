// The rule that turns gradients into weights, on flat runs of numbers: any part of a network can be
// stepped by itself, and parts in any order give the bits of the whole. The bits are those of
// LibTorch's own optimisers (LARS, which it lacks, apart).
//
// A new one is a file of its own, with make_NAME, and a line in optimisers.def.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/options.h"
#include "replica/flat_model.h"

namespace lockstep {

struct OptimiserState {
  std::string name;
  std::span<float> values;  // one for each weight; the optimiser's, in place as long as it lives
};

class Optimiser {
 public:
  virtual ~Optimiser() = default;
  // A step on `part`, after `updates` earlier ones. Leaves its gradients zero.
  virtual void step(double lr, std::uint64_t updates, Slice part) = 0;
  // Does the rule take a step of the same length whatever the gradients' scale? Then what a step
  // counts for can only be its rate.
  virtual bool ignores_scale() const { return false; }
  // Is the rule one of whole layers, so that `part` may not cut any? UsageError if it does.
  virtual bool needs_whole_layers() const { return false; }
  // All that it remembers between steps: written to a checkpoint, and over to resume from one.
  virtual std::vector<OptimiserState> state() { return {}; }
};

struct OptimiserRow {
  std::string_view name;
  std::string_view defaults;  // every key with its default: "lr=0.01,momentum=0"
  std::string_view description;
  std::unique_ptr<Optimiser> (*make)(const Options&, const FlatModel&);
};

std::span<const OptimiserRow> optimisers();
// What `spec` asks for, with the defaults of its row: Options::number("lr") is the base rate. A
// UsageError lists the names or the keys, or says what a value must be.
Options optimiser_options(std::string_view spec);
// The model's memory must outlive it.
std::unique_ptr<Optimiser> make_optimiser(const Options&, const FlatModel&);

// What rules share. A tensor that views this part of a run of numbers:
torch::Tensor view_of(float* all, Slice part);
// What LibTorch does in several passes over all numbers, passes over what a cache holds do sooner:
// blocks of so many.
inline constexpr std::size_t kBlock = 32768;

#define OPTIMISER(function, name, defaults, description) \
  std::unique_ptr<Optimiser> make_##function(const Options&, const FlatModel&);
#include "replica/optimisers.def"
#undef OPTIMISER

}  // namespace lockstep
