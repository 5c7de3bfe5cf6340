// A chart of a study's CSV.
#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/names.h"
#include "core/units.h"
#include "study/chart.h"
#include "study/figures.h"

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

namespace {

constexpr std::string_view kTuned = ", tuned";  // ends the label of a variant with tuned flags

class ChartMaker {
 public:
  ChartMaker(const CsvTable& table, const ChartRequest& request, const std::string& path)
      : table_(table), request_(request), path_(path) {}

  Chart chart() {
    y_ = request_.y.empty() ? first_figure() : request_.y;
    if (!table_.column(y_)) throw_unknown("column", y_, names());
    gather();
    if (groups_.empty())
      throw UsageError(fmt::format("{} has no row with a number for {}{}{}", path_, y_,
                                   request_.x.empty() ? "" : " over " + request_.x,
                                   request_.where.empty() ? "" : " where that is so"));
    Chart chart;
    chart.y_label = label_of(y_);
    chart.y_percent = unit_of(y_) == "%";
    chart.x_label = request_.x.empty() ? "" : label_of(request_.x);
    chart.bars = request_.x.empty();
    chart.x_log = request_.x_log;
    chart.y_log = request_.y_log;
    chart.title = !request_.title.empty() ? request_.title
                  : chart.bars            ? name_of(y_)
                                          : name_of(y_) + " over " + name_of(request_.x);
    add_points(chart);
    chart.caption = caption();
    return chart;
  }

 private:
  using Row = std::vector<std::string>;
  // What a point is the mean of.
  struct Group {
    std::vector<double> x, y;
    std::string x_text;
  };

  std::vector<std::string_view> names() const {
    return {table_.columns.begin(), table_.columns.end()};
  }

  std::string first_figure() const {
    for (const char* key : {"score", "samples_per_second", "time_us"})
      if (const auto at = table_.column(key))
        for (const Row& row : table_.rows)
          if (number_in<double>(row[*at])) return key;
    throw UsageError(path_ +
                     " has no score, samples_per_second or time_us: say what to draw with "
                     "--y COLUMN");
  }

  std::string field(const Row& row, const std::string& name) const {
    const auto at = table_.column(name);
    return at ? row[*at] : "";
  }

  // ", bandwidth 10Gbps" of a label, from the comma to before the next, or to " (simulated)".
  static std::pair<std::size_t, std::size_t> axis_in(const std::string& label,
                                                     const std::string& axis) {
    const std::string start = ", " + axis + " ";
    const std::size_t at = label.find(start);
    if (at == std::string::npos) return {at, 0};
    const std::size_t from = at + start.size();
    const std::size_t end =
        std::min({label.find(", ", from), label.find(" (", from), label.size()});
    return {at, end - at};
  }

  // A run that serves several variants has the labels of all: "ring, rate 1 | ring, rate 1, tuned".
  std::vector<std::string> labels_of(const Row& row) const {
    const std::string_view between = " | ";
    std::vector<std::string> labels;
    std::string rest = field(row, "variant");
    for (std::size_t at; (at = rest.find(between)) != std::string::npos;) {
      labels.push_back(rest.substr(0, at));
      rest.erase(0, at + between.size());
    }
    labels.push_back(rest);
    return labels;
  }

  // A column's field, else the axis of that name in the label, else whether it is a tuned
  // variant's. UsageError: none of them.
  std::string value_at(const Row& row, const std::string& label, const std::string& name) const {
    if (name == "variant") return label;
    if (table_.column(name)) return field(row, name);
    if (name == "tuned") return label.find(kTuned) == std::string::npos ? "no" : "yes";
    const auto [at, length] = axis_in(label, name);
    if (length > 0) return label.substr(at + name.size() + 3, length - name.size() - 3);
    for (const Row& other : table_.rows)
      if (axis_in(field(other, "variant"), name).second > 0) return "";
    throw_unknown("column or axis", name, names());
  }

  std::string series_of(const Row& row, std::string label) const {
    if (!request_.series.empty()) return value_at(row, label, request_.series);
    const auto leave_out = [&](const std::string& axis) {
      if (const auto [at, length] = axis_in(label, axis); length > 0) label.erase(at, length);
      if (const std::size_t at = label.find(kTuned); axis == "tuned" && at != std::string::npos)
        label.erase(at, kTuned.size());
    };
    leave_out(request_.x);
    for (const std::string& condition : request_.where)
      leave_out(condition.substr(0, condition.find('=')));
    return label;
  }

  bool wanted(const Row& row, const std::string& label) const {
    if (table_.column("status") && field(row, "status") != "done") return false;
    if (field(row, "tuning_trial") == "yes") return false;
    return std::ranges::all_of(request_.where, [&](const std::string& condition) {
      const std::size_t equals = condition.find('=');
      if (equals == std::string::npos)
        throw UsageError(fmt::format("--where {}: NAME=VALUE is needed", condition));
      return value_at(row, label, condition.substr(0, equals)) == condition.substr(equals + 1);
    });
  }

  void gather() {
    for (const Row& row : table_.rows) {
      const auto y = number_in<double>(field(row, y_));
      if (!y || (request_.y_log && *y <= 0)) continue;
      std::set<std::pair<std::string, std::string>> taken;  // a run counts once in a point
      for (const std::string& label : labels_of(row))
        if (wanted(row, label)) take(row, label, *y, taken);
    }
  }

  void take(const Row& row, const std::string& label, double y,
            std::set<std::pair<std::string, std::string>>& taken) {
    const std::string x = request_.x.empty() ? "" : value_at(row, label, request_.x);
    if (x.empty() && !request_.x.empty()) return;
    const bool curves = table_.column("step") && !table_.column("status");
    const std::string series = series_of(row, label), key = curves ? field(row, "step") : x;
    if (!taken.insert({series, key}).second) return;
    if (std::ranges::find(order_, series) == order_.end()) order_.push_back(series);
    Group& group = groups_[series][key];
    group.x_text = x;
    group.y.push_back(y);
    if (const auto number = number_in<double>(x))
      group.x.push_back(*number);
    else
      named_ = true;
    if (std::ranges::find(x_names_, x) == x_names_.end()) x_names_.push_back(x);
    if (const std::string commit = field(row, "commit"); !commit.empty()) commits_.insert(commit);
  }

  // A bar of a simulated run stands below that of the run which it simulates.
  void put_twins_together() {
    const std::string_view simulated = " (simulated)";
    const std::vector<std::string> all = std::exchange(order_, {});
    const auto measured = [&](const std::string& name) {
      return name.substr(0, name.find(simulated));
    };
    for (const std::string& name : all) {
      if (std::ranges::find(order_, name) != order_.end()) continue;
      for (const std::string& other : all)
        if (measured(other) == measured(name)) order_.push_back(other);
    }
  }

  void add_points(Chart& chart) {
    const bool named = named_ && !chart.bars;
    if (chart.bars) put_twins_together();
    if (named) chart.x_names = x_names_;
    for (const std::string& name : order_) {
      ChartSeries& series = chart.series.emplace_back();
      series.name = name;
      for (const auto& [key, group] : groups_[name]) {
        ChartPoint point{0, estimate(group.y)};
        fewest_ = std::min(fewest_, point.y.n);
        most_ = std::max(most_, point.y.n);
        if (named)
          point.x =
              static_cast<double>(std::ranges::find(x_names_, group.x_text) - x_names_.begin());
        else if (!chart.bars)
          point.x = estimate(group.x).mean;
        if (chart.x_log && !named && point.x <= 0) continue;
        series.points.push_back(point);
      }
      std::ranges::sort(series.points, {}, &ChartPoint::x);
      if (series.points.empty()) chart.series.pop_back();
    }
  }

  std::string caption() const {
    std::string text = most_ == 1         ? "One run each."
                       : fewest_ == most_ ? fmt::format("Means of {} runs", most_)
                                          : fmt::format("Means of {} to {} runs", fewest_, most_);
    if (most_ >= kFewestRuns)
      text += "; 95 % intervals over seeds";
    else if (most_ > 1)
      text += ", too few for an interval";
    if (most_ > 1) text += '.';
    if (commits_.size() == 1) text += " Commit " + *commits_.begin() + ".";
    return text + " Data: " + path_.substr(path_.rfind('/') + 1) + ".";
  }

  static std::string unit_of(const std::string& key) {
    const Figure* f = find_figure(key);
    return f ? std::string(f->unit) : "";
  }
  // What a figure is called, without its unit.
  static std::string name_of(const std::string& key) {
    if (key == "seconds") return "training time";
    if (const Figure* f = find_figure(key)) return std::string(f->label);
    std::string words = key;
    std::ranges::replace(words, '_', ' ');
    return words;
  }
  static std::string label_of(const std::string& key) {
    const std::string unit = key == "seconds" ? "s" : unit_of(key);
    const bool says_unit = unit.empty() || unit == "%" || unit == "/s";
    return name_of(key) + (says_unit ? "" : ", " + unit);
  }

  const CsvTable& table_;
  const ChartRequest& request_;
  const std::string& path_;
  std::string y_;
  std::vector<std::string> order_, x_names_;  // as they come
  bool named_ = false;                        // not all of x are numbers
  std::map<std::string, std::map<std::string, Group>> groups_;
  std::set<std::string> commits_;
  std::size_t fewest_ = std::numeric_limits<std::size_t>::max(), most_ = 0;
};

}  // namespace

Chart chart_of(const CsvTable& table, const ChartRequest& request, const std::string& path) {
  return ChartMaker(table, request, path).chart();
}

}  // namespace lockstep::study
