// A CSV file (RFC 4180, one header line) as rows of named fields.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::study {

struct CsvTable {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;  // as many fields each as there are columns

  std::optional<std::size_t> column(const std::string& name) const;
};

// UsageError names the line that has another number of fields than the header, or an open quote.
CsvTable csv_table(const std::string& text, const std::string& path);

}  // namespace lockstep::study
