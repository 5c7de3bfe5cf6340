// What the figures say, in sentences: no more than they show. A difference counts if its paired 95
// % interval over seeds leaves out zero (or a ratio of one); one run claims nothing.
#pragma once

#include "study/figures.h"

namespace lockstep::study {

// The first answers the study's question as far as there is a baseline.
std::vector<std::string> findings(const Study&, const std::vector<Compared>&,
                                  const nlohmann::ordered_json& bench);
// What a reader must know beside them: failed and missing runs, contention, intervals.
std::vector<std::string> notes(const Study&, const std::vector<Compared>&, const Records&);

// Measurements of `bench allreduce` over the runs of a study, beside what the formulas say
// (bench_report.cpp).
//
// An entry for each variant, engine, collective, number of ranks and size, with means over the
// runs; [] if there are none. See docs/formats.md.
nlohmann::ordered_json bench_rows(const Study&, const Records&);

// What measurements of all-reduce say, in sentences. `rows`: as bench_rows() makes them.
std::vector<std::string> bench_findings(const nlohmann::ordered_json& rows);

}  // namespace lockstep::study
