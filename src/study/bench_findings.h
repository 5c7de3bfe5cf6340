// What measurements of all-reduce say, in sentences.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace lockstep::study {

// `rows`: as bench_rows() makes them.
std::vector<std::string> bench_findings(const nlohmann::ordered_json& rows);

}  // namespace lockstep::study
