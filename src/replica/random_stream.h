// One rank's own random numbers for LibTorch, whose default generator is one for the whole process:
// ranks that are threads or simulated would draw from it in the order they happen to run.
#pragma once

#include <ATen/CPUGeneratorImpl.h>

#include <cstdint>
#include <string>

namespace lockstep {

class RandomStream {
 public:
  // As core's Rng: the same three give the same numbers.
  RandomStream(std::uint64_t seed, int rank, std::uint64_t purpose);

  // While one of these lives, whatever LibTorch draws comes from the stream; then the default
  // generator is as it was. One at a time in a process. Takes about a microsecond.
  class Installed {
   public:
    explicit Installed(RandomStream& stream) : stream_(stream) { stream_.exchange(); }
    ~Installed() { stream_.exchange(); }
    Installed(const Installed&) = delete;
    Installed& operator=(const Installed&) = delete;

   private:
    RandomStream& stream_;
  };

  // For checkpoints, as bytes. REQUIRES: not installed.
  std::string state() const;
  void restore(const std::string& state);  // UsageError if it isn't one

 private:
  void exchange();

  at::Generator own_;
};

}  // namespace lockstep
