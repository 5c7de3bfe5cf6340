// Measurements of `bench allreduce` over the runs of a study, beside what the formulas say, and
// what they say in sentences.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "study/results.h"

namespace lockstep::study {

// An entry for each variant, engine, collective, number of ranks and size, with means over the
// runs; [] if there are none. See docs/formats.md.
nlohmann::ordered_json bench_rows(const Study&, const Records&);

// What measurements of all-reduce say, in sentences. `rows`: as bench_rows() makes them.
std::vector<std::string> bench_findings(const nlohmann::ordered_json& rows);

}  // namespace lockstep::study
