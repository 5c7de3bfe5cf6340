// What the figures say, in sentences: no more than they show. A difference counts if its paired 95
// % interval over seeds leaves out zero (or a ratio of one); one run claims nothing.
#pragma once

#include "study/comparison.h"

namespace lockstep::study {

// The first answers the study's question as far as there is a baseline.
std::vector<std::string> findings(const Study&, const std::vector<Compared>&,
                                  const nlohmann::ordered_json& bench);
// What a reader must know beside them: failed and missing runs, contention, intervals.
std::vector<std::string> notes(const Study&, const std::vector<Compared>&, const Records&);

}  // namespace lockstep::study
