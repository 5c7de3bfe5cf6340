// A chart as an SVG file.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>

#include "core/error.h"
#include "study/chart.h"

namespace lockstep::study {
namespace {

constexpr std::array kColours{"#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951",
                              "#a463f2", "#9c6b4e", "#97bbf5", "#ff8ab7", "#9498a0"};
constexpr double kWidth = 860, kTop = 52, kLegendRow = 18, kCharacter = 7;

std::string escaped(const std::string& text) {
  static const std::map<char, std::string> names{
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}};
  std::string out;
  for (const char c : text) {
    const auto name = names.find(c);
    out += name == names.end() ? std::string(1, c) : name->second;
  }
  return out;
}

// Zero in place of what rounding left of it, which may be printed as "-0".
double without_dust(double value) { return std::abs(value) < 1e-12 ? 0 : value; }

// 1200000 as "1.2M": thousands get a letter, small numbers their digits.
std::string number_text(double value) {
  const double size = std::abs(value);
  for (const auto& [unit, letter] : {std::pair(1e12, "T"), {1e9, "G"}, {1e6, "M"}, {1e4, "k"}})
    if (size >= unit) return fmt::format("{:.4g}{}", value / (unit == 1e4 ? 1e3 : unit), letter);
  return fmt::format("{:.4g}", without_dust(value));
}

// From values to pixels.
class Scale {
 public:
  Scale(double low, double high, bool log, double from, double to)
      : log_(log), low_(low), high_(high), from_(from), to_(to) {
    if (log_) {
      low_ = std::pow(10, std::floor(std::log10(low) * 3) / 3);
      high_ = std::pow(10, std::ceil(std::log10(high) * 3) / 3);
    } else if (high_ <= low_) {
      high_ = low_ + (low_ == 0 ? 1 : std::abs(low_) * 0.1);
    }
    if (log_ && high_ <= low_) high_ = 10 * low_;
  }
  double operator()(double value) const {
    const double share =
        log_ ? std::log(value / low_) / std::log(high_ / low_) : (value - low_) / (high_ - low_);
    return from_ + (to_ - from_) * share;
  }
  std::vector<double> ticks() const {
    std::vector<double> all;
    if (log_) {
      const bool wide = high_ / low_ > 2000;
      for (double power = std::pow(10, std::floor(std::log10(low_))); power <= high_; power *= 10)
        for (const double times : {1.0, 2.0, 5.0})
          if ((times == 1 || !wide) && power * times >= low_ * 0.999 &&
              power * times <= high_ * 1.001)
            all.push_back(power * times);
      return all;
    }
    const double raw = (high_ - low_) / 6, power = std::pow(10, std::floor(std::log10(raw)));
    const double step = power * (raw / power < 1.5   ? 1
                                 : raw / power < 3.5 ? 2
                                 : raw / power < 7.5 ? 5
                                                     : 10);
    for (double tick = std::ceil(low_ / step - 1e-9) * step; tick <= high_ + step * 1e-9;
         tick += step)
      all.push_back(tick);
    return all;
  }

 private:
  const bool log_;
  double low_, high_;
  const double from_, to_;
};

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  void take(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

double below(const Estimate& e, bool log) {
  return e.low && (!log || *e.low > 0) ? *e.low : e.mean;
}
double above(const Estimate& e) { return e.high.value_or(e.mean); }

class Drawing {
 public:
  explicit Drawing(const Chart& chart) : chart_(chart) {}

  std::string text() {
    const double height = chart_.bars ? draw_bars() : draw_lines();
    return fmt::format(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:g}\" height=\"{1:g}\" "
        "viewBox=\"0 0 {0:g} {1:g}\" font-family=\"system-ui, sans-serif\" font-size=\"12\" "
        "fill=\"#565e69\">\n<title>{2}</title>\n"
        "<rect width=\"{0:g}\" height=\"{1:g}\" fill=\"#fff\"/>\n"
        "<text x=\"14\" y=\"24\" font-size=\"15\" font-weight=\"600\" fill=\"#1b1e23\">{2}</text>\n"
        "{3}<text x=\"14\" y=\"{4:g}\" font-size=\"11\">{5}</text>\n</svg>\n",
        kWidth, height + 24, escaped(chart_.title), out_, height + 12, escaped(chart_.caption));
  }

 private:
  template <class... Parts>
  void add(fmt::format_string<Parts...> form, Parts&&... parts) {
    out_ += fmt::format(form, std::forward<Parts>(parts)...);
    out_ += '\n';
  }

  std::string value_text(double value) const {
    return chart_.y_percent ? fmt::format("{:.4g} %", 100 * without_dust(value))
                            : number_text(value);
  }
  static const char* colour(std::size_t i) { return kColours[i % kColours.size()]; }
  // Each time that the colours start again, lines are dashed in another way.
  static const char* dash(std::size_t i) {
    constexpr std::array kDashes{"", " stroke-dasharray=\"6 4\"", " stroke-dasharray=\"2 3\"",
                                 " stroke-dasharray=\"9 3 2 3\""};
    return kDashes[i / kColours.size() % kDashes.size()];
  }

  // Names with their colours, in as many rows as they need. Returns where they end.
  double legend() {
    if (chart_.series.size() < 2) return kTop - 8;
    double x = 14, y = kTop;
    for (std::size_t i = 0; i < chart_.series.size(); ++i) {
      const std::string& name = chart_.series[i].name;
      const double width = 30 + kCharacter * static_cast<double>(name.size());
      if (x > 14 && x + width > kWidth - 14) x = 14, y += kLegendRow;
      add("<line x1=\"{0:g}\" x2=\"{1:g}\" y1=\"{2:g}\" y2=\"{2:g}\" stroke=\"{3}\" "
          "stroke-width=\"3\"{4}/><text x=\"{5:g}\" y=\"{6:g}\">{7}</text>",
          x, x + 16, y - 4, colour(i), dash(i), x + 21, y, escaped(name));
      x += width + 8;
    }
    return y + 8;
  }

  double draw_lines() {
    Range x, y;
    for (const ChartSeries& series : chart_.series)
      for (const ChartPoint& point : series.points) {
        x.take(point.x);
        y.take(below(point.y, chart_.y_log));
        y.take(above(point.y));
      }
    const bool named = !chart_.x_names.empty();
    if (named) x.low = -0.3, x.high = static_cast<double>(chart_.x_names.size()) - 0.7;
    // A scale that starts near zero starts there.
    if (!chart_.y_log && y.low > 0 && y.low < 0.5 * y.high) y.low = 0;
    const double top = legend() + 26, bottom = top + 300, left = 70, right = kWidth - 24;
    const Scale xs(x.low, x.high, chart_.x_log && !named, left, right);
    const Scale ys(y.low, y.high, chart_.y_log, bottom, top);
    add("<text x=\"14\" y=\"{:g}\">{}</text>", top - 10, escaped(chart_.y_label));
    for (const double tick : ys.ticks())
      add("<line x1=\"{0:g}\" x2=\"{1:g}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"#e3e6ea\"/>"
          "<text x=\"{3:g}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>",
          left, right, ys(tick), left - 8, ys(tick) + 4, value_text(tick));
    const auto x_tick = [&](double at, const std::string& name) {
      add("<text x=\"{:.1f}\" y=\"{:g}\" text-anchor=\"middle\">{}</text>", xs(at), bottom + 18,
          escaped(name));
    };
    if (named)
      for (std::size_t i = 0; i < chart_.x_names.size(); ++i)
        x_tick(static_cast<double>(i), chart_.x_names[i]);
    else
      for (const double tick : xs.ticks()) x_tick(tick, number_text(tick));
    add("<text x=\"{:g}\" y=\"{:g}\" text-anchor=\"end\">{}</text>", right, bottom + 38,
        escaped(chart_.x_label));
    for (std::size_t i = 0; i < chart_.series.size(); ++i) draw_line(chart_.series[i], i, xs, ys);
    return bottom + 50;
  }

  void draw_line(const ChartSeries& series, std::size_t i, const Scale& xs, const Scale& ys) {
    std::string path, upper, lower;
    for (const ChartPoint& point : series.points) {
      path +=
          fmt::format("{}{:.1f},{:.1f}", path.empty() ? "M" : "L", xs(point.x), ys(point.y.mean));
      if (!point.y.low) continue;
      upper += fmt::format("{}{:.1f},{:.1f}", upper.empty() ? "M" : "L", xs(point.x),
                           ys(above(point.y)));
      lower = fmt::format("L{:.1f},{:.1f}", xs(point.x), ys(below(point.y, chart_.y_log))) + lower;
    }
    if (!upper.empty())
      add("<path d=\"{}{}Z\" fill=\"{}\" fill-opacity=\"0.14\"/>", upper, lower, colour(i));
    add("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2.2\" "
        "stroke-linejoin=\"round\"{}/>",
        path, colour(i), dash(i));
    constexpr std::size_t kMostDots = 24;
    if (series.points.size() > kMostDots) return;
    for (const ChartPoint& point : series.points)
      add("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.4\" fill=\"{}\"/>", xs(point.x),
          ys(point.y.mean), colour(i));
  }

  double draw_bars() {
    std::size_t longest = 0;
    Range values;
    values.take(0);
    for (const ChartSeries& series : chart_.series) {
      longest = std::max(longest, series.name.size());
      values.take(above(series.points.at(0).y));
    }
    const double left = std::min(0.5 * kWidth, 24 + kCharacter * static_cast<double>(longest));
    const double right = kWidth - 90, top = kTop, row = 26;
    const double bottom = top + row * static_cast<double>(chart_.series.size());
    const Scale xs(0, values.high, false, left, right);
    for (const double tick : xs.ticks())
      add("<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:g}\" y2=\"{2:g}\" stroke=\"#e3e6ea\"/>"
          "<text x=\"{0:.1f}\" y=\"{3:g}\" text-anchor=\"middle\">{4}</text>",
          xs(tick), top, bottom, bottom + 16, value_text(tick));
    for (std::size_t i = 0; i < chart_.series.size(); ++i) {
      const Estimate& value = chart_.series[i].points[0].y;
      const double y = top + row * static_cast<double>(i);
      add("<text x=\"{:g}\" y=\"{:g}\" text-anchor=\"end\" fill=\"#1b1e23\">{}</text>", left - 8,
          y + 17, escaped(chart_.series[i].name));
      add("<rect x=\"{:g}\" y=\"{:g}\" width=\"{:.1f}\" height=\"18\" fill=\"{}\"/>", left, y + 4,
          std::max(0.0, xs(value.mean) - left), colour(0));
      if (value.low)
        add("<line x1=\"{0:.1f}\" x2=\"{1:.1f}\" y1=\"{2:g}\" y2=\"{2:g}\" stroke=\"#1b1e23\" "
            "stroke-width=\"1.4\"/>",
            xs(std::max(0.0, *value.low)), xs(*value.high), y + 13);
      add("<text x=\"{:.1f}\" y=\"{:g}\" fill=\"#1b1e23\">{}</text>", xs(above(value)) + 7, y + 17,
          value_text(value.mean));
    }
    add("<text x=\"{:g}\" y=\"{:g}\" text-anchor=\"end\">{}</text>", right, bottom + 36,
        escaped(chart_.y_label));
    return bottom + 48;
  }

  const Chart& chart_;
  std::string out_;
};

}  // namespace

std::string svg_of(const Chart& chart) { return Drawing(chart).text(); }

}  // namespace lockstep::study
