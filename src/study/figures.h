// The figures that a training run is compared by, one row each: the report's columns and
// results.csv's.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "study/run_record.h"

namespace lockstep::study {

struct Figure {
  std::string_view key;     // unit last, as in results.csv
  std::string_view label;   // for people
  std::string_view unit;    // "%": the figure is a share, 1 is 100 %
  std::string_view better;  // high|low
  int digits;               // after the point, in that unit
  bool as_ratio;            // compared with the baseline as a ratio, else as a difference
  // Empty: the run has no such figure.
  std::optional<double> (*of)(const RunRecord&);
};
std::span<const Figure> figures();
const Figure& figure(std::string_view key);  // REQUIRES: there is one

// More workers x threads than cores: wall times are contention.
bool oversubscribed(const RunRecord&);
bool simulated(const RunRecord&);

}  // namespace lockstep::study
