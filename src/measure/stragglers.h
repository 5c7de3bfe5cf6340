// Which ranks the others waited for: in each step the rank that was ready to exchange last, and how
// long the workers waited for it. Waiting is a server's work, and so does not count.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

namespace lockstep {

struct Stragglers {
  struct Share {
    std::uint64_t steps = 0;  // in which it was last and anybody waited
    double seconds = 0;       // of all workers together
  };
  std::vector<Share> by_rank;

  explicit Stragglers(int ranks = 0) : by_rank(ranks) {}
  void add(int last, double seconds);
  double total_s() const;
  // The rank that stands out: its share of the waiting is more than half way from an even share to
  // all of it, and waiting took more than 5 % of `worker_s`, the training time of all workers.
  std::optional<int> straggler(double worker_s) const;
};
nlohmann::ordered_json to_json(const Stragglers&);
Stragglers stragglers_from(const nlohmann::json&);

}  // namespace lockstep
