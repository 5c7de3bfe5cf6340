// The figures that a training run is compared by, one row each: the report's columns and
// results.csv's; and a study's variants beside each other, by their figures.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "study/results.h"
#include "study/statistics.h"

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
const Figure* find_figure(std::string_view key);  // null: there is none
const Figure& figure(std::string_view key);       // REQUIRES: there is one

// As reports have it: {"mean": …, "low": …, "high": …, "n": …}, the mean under this name.
nlohmann::ordered_json to_json(const Estimate&, const char* mean = "mean");

// More workers x threads than cores: wall times are contention.
bool oversubscribed(const RunRecord&);
bool simulated(const RunRecord&);

struct Compared {
  const Variant* variant = nullptr;
  const Compared* baseline = nullptr;  // at the same point of the grid; null: none, or it is this
  std::map<std::string_view, BySeed> values;  // by figure, of the runs that are done
  bool oversubscribed = false, simulated = false;

  // Can it be held against the other? At the same point of the grid, both measured or both
  // simulated, both tuned or neither.
  bool comparable(const Compared& other) const;
  // Empty: there is no such figure, or no baseline, or no seed that both have.
  std::optional<Estimate> of(std::string_view figure) const;
  // A ratio or a difference, as the figure says.
  std::optional<Estimate> against_baseline(std::string_view figure) const;
};

// In the order of the study's variants. They refer to each other: keep the vector as it is.
std::vector<Compared> compare(const Study&, const Records&);

}  // namespace lockstep::study
