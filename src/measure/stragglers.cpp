#include "measure/stragglers.h"

#include <algorithm>

namespace lockstep {

void Stragglers::add(int last, double seconds) {
  if (seconds <= 0) return;
  by_rank.at(last).steps += 1;
  by_rank.at(last).seconds += seconds;
}

double Stragglers::total_s() const {
  double sum = 0;
  for (const Share& share : by_rank) sum += share.seconds;
  return sum;
}

std::optional<int> Stragglers::straggler(double worker_s) const {
  constexpr double kWorthNaming = 0.05;
  const double all = total_s();
  if (by_rank.size() < 2 || all <= kWorthNaming * worker_s) return {};
  const auto most = std::ranges::max_element(by_rank, {}, &Share::seconds);
  const double even = 1 / static_cast<double>(by_rank.size());
  if (most->seconds <= (1 + even) / 2 * all) return {};
  return static_cast<int>(most - by_rank.begin());
}

nlohmann::ordered_json to_json(const Stragglers& waited) {
  auto rows = nlohmann::ordered_json::array();
  for (const auto& share : waited.by_rank) rows.push_back({share.steps, share.seconds});
  return rows;
}

Stragglers stragglers_from(const nlohmann::json& json) {
  Stragglers waited;
  for (const auto& row : json) waited.by_rank.push_back({row.at(0), row.at(1)});
  return waited;
}

}  // namespace lockstep
