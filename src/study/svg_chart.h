// A chart as an SVG file that needs nothing else: lines over numbers or over names, or bars, with
// intervals where there are any.
#pragma once

#include <string>
#include <vector>

#include "study/statistics.h"

namespace lockstep::study {

struct ChartPoint {
  double x = 0;  // of lines over names: which of them
  Estimate y;
};

struct ChartSeries {
  std::string name;
  std::vector<ChartPoint> points;  // by x
};

struct Chart {
  std::string title, caption;  // the caption is small, below
  std::string x_label, y_label;
  std::vector<std::string> x_names;  // empty: x is a number
  bool x_log = false, y_log = false;
  bool y_percent = false;  // y is a share
  bool bars = false;       // one for each series, by its first point; x does not count
  std::vector<ChartSeries> series;
};

// REQUIRES: at least one point; all positive where a scale is logarithmic.
std::string svg_of(const Chart&);

}  // namespace lockstep::study
