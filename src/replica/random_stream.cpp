#include "replica/random_stream.h"

#include <ATen/ATen.h>

#include <cstring>

#include "core/error.h"
#include "core/rng.h"

namespace lockstep {
namespace {

// With the normals that were drawn in pairs and wait for their turn.
struct State {
  at::mt19937 engine;
  c10::optional<float> next_float;
  c10::optional<double> next_double;
};

State state_of(at::CPUGeneratorImpl& generator) {
  return {generator.engine(), generator.next_float_normal_sample(),
          generator.next_double_normal_sample()};
}

void set_state(at::CPUGeneratorImpl& generator, const State& state) {
  generator.set_engine(state.engine);
  generator.set_next_float_normal_sample(state.next_float);
  generator.set_next_double_normal_sample(state.next_double);
}

}  // namespace

RandomStream::RandomStream(std::uint64_t seed, int rank, std::uint64_t purpose)
    : own_(at::detail::createCPUGenerator(Rng(seed, rank, purpose)())) {}

void RandomStream::exchange() {
  auto& own = *at::check_generator<at::CPUGeneratorImpl>(own_);
  auto& shared = *at::check_generator<at::CPUGeneratorImpl>(at::detail::getDefaultCPUGenerator());
  const State before = state_of(shared);
  set_state(shared, state_of(own));
  set_state(own, before);
}

std::string RandomStream::state() const {
  const at::Tensor bytes = own_.get_state();
  return {static_cast<const char*>(bytes.data_ptr()), static_cast<std::size_t>(bytes.numel())};
}

void RandomStream::restore(const std::string& state) {
  at::Tensor bytes = at::empty(static_cast<std::int64_t>(state.size()), at::kByte);
  std::memcpy(bytes.data_ptr(), state.data(), state.size());
  try {
    own_.set_state(bytes);
  } catch (const c10::Error&) {
    throw UsageError("the saved state of LibTorch's random numbers is damaged");
  }
}

}  // namespace lockstep
