// Measurements of `bench allreduce` over the runs of a study, beside what the formulas say.
#pragma once

#include "study/results.h"

namespace lockstep::study {

// An entry for each variant, engine, collective, number of ranks and size, with means over the
// runs; [] if there are none. See docs/formats.md.
nlohmann::ordered_json bench_rows(const Study&, const Records&);

}  // namespace lockstep::study
