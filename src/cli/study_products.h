// What a study or a run leaves for people: report.html, and for a study
// results.csv and curves.csv.
#pragma once

#include <optional>
#include <string>

#include "study/study.h"

namespace lockstep {

// From DIR/study.json and the runs' folders, or from a run's own folder. The path of the report.
// UsageError if the folder holds neither.
std::string write_products(const std::string& folder);

// A study's results as `path`, NAME.csv, and its curves as NAME-curves.csv beside it. UsageError if
// the folder holds no study.
void write_csv(const std::string& folder, const std::string& path);

// A figure of one run (study/figures.h), if it is done and has it.
std::optional<double> figure_of(const study::Study&, const std::string& folder,
                                const std::string& run, std::string_view figure);

}  // namespace lockstep
