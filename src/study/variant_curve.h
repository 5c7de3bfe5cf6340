// How a variant's score went, over its seeds.
#pragma once

#include "study/results.h"

namespace lockstep::study {

// A point for each step that was scored: means over the runs that are done, the score with its
// interval, and how many runs it stands for.
nlohmann::ordered_json mean_curve(const Variant&, const Records&);

}  // namespace lockstep::study
