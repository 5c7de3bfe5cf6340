// Charts as SVG files that need nothing else, made of a study's results.csv or curves.csv: so a
// page's figure can be drawn again from the file beside it.
#pragma once

#include <optional>
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

// Lines over numbers or over names, or bars, with intervals where there are any.
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

struct CsvTable {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;  // as many fields each as there are columns

  std::optional<std::size_t> column(const std::string& name) const;
};

// UsageError names the line that has another number of fields than the header, or an open quote.
CsvTable csv_table(const std::string& text, const std::string& path);

// Each name is a column, or an axis of the study as the labels in `variant` have it
// ("…, bandwidth 10Gbps"), or `tuned`: yes where the label says so, else no.
struct ChartRequest {
  std::string y;                   // empty: the first of score, samples_per_second, time_us
  std::string x;                   // empty: bars, one for each variant
  std::string series;              // empty: what the variant's label says beside x and `where`
  std::vector<std::string> where;  // NAME=VALUE: only such rows
  std::string title;               // empty: made of x and y
  bool x_log = false, y_log = false;
};

// A run that serves several variants (labels with " | " between) is drawn in each of them.
// Means over the rows that agree in series and x, with the 95 % interval from three on; of curves,
// over those that agree in series and step. Rows of runs that are not done, or without one of the
// figures, are left out; trials of tuning too. UsageError names what there is instead.
Chart chart_of(const CsvTable&, const ChartRequest&, const std::string& path);

}  // namespace lockstep::study
