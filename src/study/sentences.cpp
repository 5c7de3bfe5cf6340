#include "study/sentences.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/units.h"
#include "core/words.h"

namespace lockstep::study {
namespace {

std::string value_text(double value, const Figure& f) {
  if (f.unit == "%") return fmt::format("{:.{}f} %", 100 * value, f.digits);
  if (f.unit == "B") return bytes_in_words(value);
  if (f.unit == "s") return time_in_words(value);
  return fmt::format("{:.{}f}{}{}", value, f.digits, f.unit.empty() ? "" : " ", f.unit);
}

std::string runs_text(std::size_t n) { return n == 1 ? "one run" : fmt::format("{} seeds", n); }

// A ratio, or a difference in the figure's own unit; of accuracies in points.
std::string change_text(double value, const Figure& f) {
  if (f.as_ratio) return fmt::format("{:.2f}", value);
  return f.unit == "%" ? fmt::format("{:+.2f}", 100 * value)
                       : fmt::format("{:+.{}f}", value, f.digits);
}

// Less than the difference between two roundings: bytes are the same in every run.
bool exact(const Estimate& e) { return e.low && *e.high - *e.low < 1e-3 * std::abs(e.mean); }

std::optional<double> number_in(const std::string& text) try {
  return parse_number(text);
} catch (const UsageError&) {
  return {};
}

std::optional<double> exchange_s(const Compared& c) {
  const auto communicate = c.of("communicate_seconds_per_step"),
             wait = c.of("wait_seconds_per_step");
  if (!communicate || !wait) return {};
  return communicate->mean + wait->mean;
}

// By seed, those that have both.
BySeed exchange_by_seed(const Compared& c) {
  BySeed sums;
  const auto communicate = c.values.find("communicate_seconds_per_step"),
             wait = c.values.find("wait_seconds_per_step");
  if (communicate == c.values.end() || wait == c.values.end()) return sums;
  for (const auto& [seed, seconds] : communicate->second)
    if (const auto also = wait->second.find(seed); also != wait->second.end())
      sums[seed] = seconds + also->second;
  return sums;
}

std::string interval_text(const std::optional<Estimate>& e, const Figure& f) {
  if (!e) return "";
  if (!e->low) return ", " + runs_text(e->n);
  return fmt::format(", 95 % interval {} to {}", change_text(*e->low, f), change_text(*e->high, f));
}

// Whose figure is below the baseline's, whose above, and whose not shown to be either.
struct Sides {
  std::string baseline;  // empty: nobody can be compared
  std::vector<std::string> less, more, none;
  std::vector<const Compared*> undecided;  // those of `none`
};

Sides sides_of(const std::vector<const Compared*>& set, std::string_view key) {
  const double same = figure(key).as_ratio ? 1 : 0;
  Sides sides;
  for (const Compared* c : set) {
    const auto e = c->against_baseline(key);
    if (!e || !e->low) continue;
    sides.baseline = c->baseline->variant->name;
    // Half a percent, though it may be exact (bytes are), is nothing to choose by.
    if (!e->excludes(same) || (figure(key).as_ratio && std::abs(e->mean - same) < 0.005))
      sides.none.push_back(c->variant->name), sides.undecided.push_back(c);
    else
      (e->mean < same ? sides.less : sides.more)
          .push_back(fmt::format("{} ({})", c->variant->name, against_text(*c, key)));
  }
  return sides;
}

// The variants that differ from `first` in this axis alone, by its value.
std::vector<std::pair<double, const Compared*>> line_of(const Compared& first,
                                                        const ShownAxis& axis,
                                                        const std::vector<Compared>& all) {
  std::vector<std::pair<double, const Compared*>> line;
  for (const Compared& c : all) {
    const auto value = c.variant->group.find(axis.name);
    if (value == c.variant->group.end() || c.variant->name != first.variant->name ||
        c.simulated != first.simulated || c.variant->tuned != first.variant->tuned)
      continue;
    auto elsewhere = c.variant->group;
    elsewhere[axis.name] = first.variant->group.at(axis.name);
    const auto number = number_in(value->second);
    if (elsewhere == first.variant->group && number && !c.values.empty())
      line.emplace_back(*number, &c);
  }
  std::ranges::sort(line, {}, [](const auto& p) { return p.first; });
  return line;
}

}  // namespace

std::string estimate_text(const Estimate& e, const Figure& f) {
  const std::string interval =
      e.low && !exact(e) ? fmt::format("{} to {}, ", value_text(*e.low, f), value_text(*e.high, f))
                         : "";
  return fmt::format("{} ({}{})", value_text(e.mean, f), interval, runs_text(e.n));
}

std::string against_text(const Compared& c, std::string_view key) {
  const Figure& f = figure(key);
  const Estimate e = *c.against_baseline(key);
  const char* unit = f.as_ratio ? " times" : f.unit == "%" ? " points" : "";
  const std::string interval =
      e.low && !exact(e)
          ? fmt::format(", 95 % interval {} to {}", change_text(*e.low, f), change_text(*e.high, f))
          : "";
  return fmt::format("{}{}{}, {}", change_text(e.mean, f), unit, interval, runs_text(e.n));
}

std::string loss_text(const std::vector<const Compared*>& all) {
  double largest = 0;
  for (const Compared* c : all) largest = std::max(largest, -*c->against_baseline("score")->low);
  return largest > 0 ? fmt::format("a loss of up to {:.2f} points is not excluded", 100 * largest)
                     : "a loss is excluded";
}

std::string cant_tell(std::size_t n) { return runs_text(n) + " can't tell"; }

std::vector<std::string> differences(const std::vector<const Compared*>& set,
                                     std::initializer_list<std::string_view> figures) {
  std::vector<std::string> out, undecided;
  std::string baseline;
  for (const std::string_view key : figures) {
    const Sides sides = sides_of(set, key);
    if (sides.baseline.empty()) continue;
    baseline = sides.baseline;
    const std::string not_excluded =
        key == "score" && !sides.undecided.empty() ? " (" + loss_text(sides.undecided) + ")" : "";
    if (sides.less.empty() && sides.more.empty()) {
      undecided.push_back(std::string(figure(key).label) + not_excluded);
      continue;
    }
    std::vector<std::string> parts;
    if (!sides.less.empty()) parts.push_back("less for " + listed(sides.less));
    if (!sides.more.empty()) parts.push_back("more for " + listed(sides.more));
    if (!sides.none.empty())
      parts.push_back("no difference shown for " + listed(sides.none) + not_excluded);
    out.push_back(fmt::format("{}, against {}: {}.", capitalised(std::string(figure(key).label)),
                              baseline, fmt::join(parts, "; ")));
  }
  if (!undecided.empty())
    out.insert(out.begin(), fmt::format("No difference to {} is shown for any variant in {}.",
                                        baseline, listed(undecided)));
  return out;
}

std::string listed(const std::vector<std::string>& all) {
  if (all.size() < 2) return all.empty() ? "" : all[0];
  return fmt::format("{} and {}", fmt::join(all.begin(), all.end() - 1, ", "), all.back());
}

std::string capitalised(std::string sentence) {
  if (!sentence.empty()) sentence[0] = static_cast<char>(std::toupper(sentence[0]));
  return sentence;
}

std::vector<std::string> along(const ShownAxis& axis, const std::vector<Compared>& all) {
  std::vector<std::string> times, scores;
  std::vector<const Compared*> seen;
  const Figure& f = figure("score");
  for (const Compared& first : all) {
    if (!first.variant->group.contains(axis.name) || std::ranges::find(seen, &first) != seen.end())
      continue;
    const auto line = line_of(first, axis, all);
    for (const auto& [number, c] : line) seen.push_back(c);
    if (line.size() < 2) continue;
    const auto& [low, least] = line.front();
    const auto& [high, most] = line.back();
    const std::string name = first.variant->name + (first.simulated ? " (simulated)" : "");
    const auto from = exchange_s(*least), to = exchange_s(*most);
    if (from && to && *from > 0) {
      const auto ratio = paired_ratio(exchange_by_seed(*most), exchange_by_seed(*least));
      times.push_back(fmt::format("{} {:.1f} times, {} to {}{}", name, *to / *from,
                                  time_in_words(*from), time_in_words(*to),
                                  interval_text(ratio, figure("step_seconds"))));
    }
    if (const auto a = least->of("score"), b = most->of("score"); a && b) {
      const auto change = paired_difference(most->values.at("score"), least->values.at("score"));
      const std::string verdict =
          !change || !change->low ? ""
          : change->excludes(0)
              ? fmt::format(": {} points{}", change_text(change->mean, f), interval_text(change, f))
              : ": no difference is shown" + interval_text(change, f);
      scores.push_back(fmt::format("{} from {} to {}{}", name, estimate_text(*a, f),
                                   estimate_text(*b, f), verdict));
    }
  }
  std::vector<std::string> out;
  const std::string range =
      fmt::format("From {} {} to {}", axis.name, axis.values.front(), axis.values.back());
  constexpr std::size_t kMost = 10;  // a longer list is read from the chart
  if (!times.empty() && times.size() <= kMost)
    out.push_back(fmt::format("{}, time a step spent in exchange and waiting becomes: {}.", range,
                              fmt::join(times, "; ")));
  if (!scores.empty() && scores.size() <= kMost)
    out.push_back(fmt::format("{}, accuracy goes: {}.", range, fmt::join(scores, "; ")));
  return out;
}

std::string missing_reason(const Study& study) {
  for (const Run& run : study.runs)
    if (run.status != "done" && run.status != "failed" && !run.reason.empty()) return run.reason;
  return "the study is not finished";
}

}  // namespace lockstep::study
