#include "study/comparison.h"

namespace lockstep::study {

std::optional<Estimate> Compared::of(std::string_view figure) const {
  const auto found = values.find(figure);
  if (found == values.end()) return {};
  std::vector<double> all;
  for (const auto& [seed, value] : found->second) all.push_back(value);
  return estimate(all);
}

std::optional<Estimate> Compared::against_baseline(std::string_view key) const {
  if (!baseline) return {};
  const auto mine = values.find(key), theirs = baseline->values.find(key);
  if (mine == values.end() || theirs == baseline->values.end()) return {};
  return figure(key).as_ratio ? paired_ratio(mine->second, theirs->second)
                              : paired_difference(mine->second, theirs->second);
}

std::vector<Compared> compare(const Study& study, const Records& records) {
  std::vector<Compared> all;
  for (const Variant& variant : study.variants) {
    Compared& one = all.emplace_back();
    one.variant = &variant;
    one.simulated = variant.simulated;
    for (const std::string& id : variant.runs) {
      const RunRecord& record = records.at(id);
      if (!record.done()) continue;
      one.oversubscribed |= oversubscribed(record);
      one.simulated |= simulated(record);
      for (const Figure& f : figures())
        if (const auto value = f.of(record)) one.values[f.key][study.run(id).seed] = *value;
    }
  }
  for (Compared& one : all)
    for (const Compared& other : all)
      if (&one != &other && other.variant->name == study.baseline &&
          one.variant->name != study.baseline && one.variant->group == other.variant->group &&
          one.simulated == other.simulated &&
          one.variant->tuned.empty() == other.variant->tuned.empty())
        one.baseline = &other;
  return all;
}

}  // namespace lockstep::study
