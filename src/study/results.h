// results.csv: the study's runs as any program reads them (RFC 4180, one header line, UTF-8).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "study/run_record.h"
#include "study/study.h"

namespace lockstep::study {

using Records = std::map<std::string, RunRecord>;  // by run's id
Records read_runs(const Study&, const std::string& folder);

// A row a run, columns as docs/formats.md lists them; for benchmarks a row a measurement.
// `curve_file`: where curves_csv() is kept, beside it.
std::string results_csv(const Study&, const Records&, const std::string& curve_file = "curves.csv");
// A row for each score of each run: how far it was, after how many steps, seconds and bytes.
std::string curves_csv(const Study&, const Records&);

// One line with its end; fields with commas, quotes or line ends are quoted.
std::string csv_line(const std::vector<std::string>& fields);

}  // namespace lockstep::study
