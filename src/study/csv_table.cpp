#include "study/csv_table.h"

#include <algorithm>

#include "core/error.h"

namespace lockstep::study {

std::optional<std::size_t> CsvTable::column(const std::string& name) const {
  const auto found = std::ranges::find(columns, name);
  if (found == columns.end()) return {};
  return found - columns.begin();
}

CsvTable csv_table(const std::string& text, const std::string& path) {
  std::vector<std::vector<std::string>> lines{{""}};
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    std::string& field = lines.back().back();
    if (quoted && c == '"' && i + 1 < text.size() && text[i + 1] == '"') {
      field += text[++i];
    } else if (c == '"') {
      quoted = !quoted;
    } else if (quoted || (c != ',' && c != '\r' && c != '\n')) {
      field += c;
    } else if (c == ',') {
      lines.back().emplace_back();
    } else if (c == '\n') {
      lines.push_back({""});
    }
  }
  if (quoted) throw UsageError(path + " ends within quotes: it is no CSV, or it was cut");
  if (lines.back() == std::vector<std::string>{""}) lines.pop_back();
  if (lines.empty())
    throw UsageError(path + " is empty: a CSV starts with the names of its columns");
  CsvTable table{lines[0], {lines.begin() + 1, lines.end()}};
  for (std::size_t r = 0; r < table.rows.size(); ++r)
    if (table.rows[r].size() != table.columns.size())
      throw UsageError(fmt::format("{}: row {} has {} fields, and its header {}", path, r + 1,
                                   table.rows[r].size(), table.columns.size()));
  return table;
}

}  // namespace lockstep::study
