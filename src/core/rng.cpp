#include "core/rng.h"

#include <cmath>
#include <sstream>

#include "core/error.h"

namespace lockstep {

std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

Rng::Rng(std::uint64_t seed, int rank, std::uint64_t purpose)
    : engine_(mixed(mixed(mixed(seed) ^ static_cast<std::uint64_t>(rank)) ^ purpose)) {}

// Written out rather than taken from <random>, whose distributions differ between libraries.
double Rng::uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }

std::uint64_t Rng::below(std::uint64_t n) {
  const std::uint64_t reject_under = (0 - n) % n;  // 2^64 mod n
  std::uint64_t x = engine_();
  while (x < reject_under) x = engine_();
  return x % n;
}

double Rng::normal() {  // Box-Muller; the second number is thrown away so that the state is the
                        // engine's alone
  const double radius = std::sqrt(-2 * std::log(1 - uniform()));
  return radius * std::cos(2 * M_PI * uniform());
}

std::string Rng::state() const {
  std::ostringstream out;
  out << engine_;
  return out.str();
}

void Rng::restore(const std::string& state) {
  std::istringstream in(state);
  in >> engine_;
  if (!in) throw UsageError("the saved state of a random stream is damaged");
}

}  // namespace lockstep
