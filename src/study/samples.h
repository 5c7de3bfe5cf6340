// What each rank used over time, from worker-R.jsonl, thin enough to be drawn.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace lockstep::study {

// One object a rank: rank, role, host, and arrays of equal length by time `t`; totals have become
// rates. At most `points` each, every one for an equal part of the samples, so that nothing between
// two points is lost. Empty where a run has no samples.
nlohmann::ordered_json samples_of(const std::string& run_folder, std::size_t points);
// One rank's, from its file's lines.
nlohmann::ordered_json thinned(const nlohmann::ordered_json& lines, std::size_t points);

}  // namespace lockstep::study
