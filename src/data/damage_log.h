// Samples found damaged while reading, by whichever thread found them.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace lockstep {

class DamageLog {
 public:
  void note(std::size_t sample, std::string what) {
    const std::lock_guard lock(mutex_);
    found_.try_emplace(sample, std::move(what));
  }
  // Each sample once, ascending.
  std::vector<std::string> all() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> all;
    for (const auto& [sample, what] : found_) all.push_back(what);
    return all;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::size_t, std::string> found_;
};

}  // namespace lockstep
