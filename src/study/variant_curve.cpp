#include "study/variant_curve.h"

#include "study/statistics.h"

namespace lockstep::study {

using Json = nlohmann::ordered_json;

Json mean_curve(const Variant& variant, const Records& records) {
  constexpr const char* kKeys[] = {"epoch", "seconds",           "bytes", "loss", "train_loss",
                                   "score", "consensus_distance"};
  std::map<std::uint64_t, std::map<std::string, std::vector<double>>> by_step;
  for (const std::string& id : variant.runs) {
    const RunRecord& record = records.at(id);
    if (!record.done()) continue;
    for (const Json& point : record.curve)
      for (const char* key : kKeys)
        if (point[key].is_number())
          by_step[point["step"].get<std::uint64_t>()][key].push_back(point[key].get<double>());
  }
  Json curve = Json::array();
  for (const auto& [step, values] : by_step) {
    Json point = {{"step", step}};
    for (const char* key : kKeys) {
      const auto found = values.find(key);
      point[key] = found == values.end() ? Json() : Json(estimate(found->second).mean);
    }
    if (const auto score = values.find("score"); score != values.end()) {
      const Estimate e = estimate(score->second);
      point["low"] = e.low ? Json(*e.low) : Json();
      point["high"] = e.high ? Json(*e.high) : Json();
      point["n"] = e.n;
    }
    curve.push_back(std::move(point));
  }
  return curve;
}

}  // namespace lockstep::study
