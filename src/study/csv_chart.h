// A chart of a study's results.csv or curves.csv: so a page's figure can be drawn again from the
// file beside it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "study/svg_chart.h"

namespace lockstep::study {

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
