#include "study/findings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/units.h"

namespace lockstep::study {
namespace {

// Parts of sentences about figures.

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

// "a", "a and b", "a, b and c".
std::string listed(const std::vector<std::string>& all) {
  if (all.size() < 2) return all.empty() ? "" : all[0];
  return fmt::format("{} and {}", fmt::join(all.begin(), all.end() - 1, ", "), all.back());
}

std::string capitalised(std::string sentence) {
  if (!sentence.empty()) sentence[0] = static_cast<char>(std::toupper(sentence[0]));
  return sentence;
}

// Against the baseline: "+0.05 points, 95 % interval -0.20 to 0.30, 3 seeds". REQUIRES: it has one.
std::string against_text(const Compared& c, std::string_view key) {
  const Figure& f = figure(key);
  const Estimate e = *c.against_baseline(key);
  const char* unit = f.as_ratio ? " times" : f.unit == "%" ? " points" : "";
  const std::string interval = e.low && !exact(e) ? interval_text(e, f) : "";
  return fmt::format("{}{}{}, {}", change_text(e.mean, f), unit, interval, runs_text(e.n));
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
    const auto number = number_in<double>(value->second);
    if (elsewhere == first.variant->group && number && !c.values.empty())
      line.emplace_back(*number, &c);
  }
  std::ranges::sort(line, {}, [](const auto& p) { return p.first; });
  return line;
}

// "97.42 % (97.1 to 97.7, 3 seeds)", "1.2 MB (one run)".
std::string estimate_text(const Estimate& e, const Figure& f) {
  const std::string interval =
      e.low && !exact(e) ? fmt::format("{} to {}, ", value_text(*e.low, f), value_text(*e.high, f))
                         : "";
  return fmt::format("{} ({}{})", value_text(e.mean, f), interval, runs_text(e.n));
}

// "a loss of up to 0.25 points is not excluded", "a loss is excluded"; of accuracy against the
// baseline, the largest over all of these. REQUIRES: all have an interval.
std::string loss_text(const std::vector<const Compared*>& all) {
  double largest = 0;
  for (const Compared* c : all) largest = std::max(largest, -*c->against_baseline("score")->low);
  return largest > 0 ? fmt::format("a loss of up to {:.2f} points is not excluded", 100 * largest)
                     : "a loss is excluded";
}

// "one run can't tell", "2 seeds can't tell".
std::string cant_tell(std::size_t n) { return runs_text(n) + " can't tell"; }

// For each of these figures: which variants have less than the baseline, which have more, and for
// which no difference is shown. Figures in which no variant differs come first, in one sentence.
// Only where there are intervals.
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

// How time to exchange and accuracy go along an axis of numbers, a sentence each.
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

// Why runs are missing, in the words of the first.
std::string missing_reason(const Study& study) {
  for (const Run& run : study.runs)
    if (run.status != "done" && run.status != "failed" && !run.reason.empty()) return run.reason;
  return "the study is not finished";
}

using Members = std::vector<const Compared*>;

// Variants that can be held against each other.
std::vector<Members> sets_of(const std::vector<Compared>& all) {
  std::vector<Members> sets;
  for (const Compared& c : all) {
    if (c.values.empty()) continue;
    const auto same =
        std::ranges::find_if(sets, [&](const Members& set) { return c.comparable(*set[0]); });
    if (same == sets.end())
      sets.push_back({&c});
    else
      same->push_back(&c);
  }
  return sets;
}

// "bandwidth 1Gbps, tuned, simulated: "; axes only where sets of the same kind differ in them.
std::string where(const Compared& c, const std::vector<Members>& sets) {
  std::vector<std::string> parts;
  for (const auto& [axis, value] : c.variant->group)
    if (std::ranges::any_of(sets, [&, &axis = axis, &value = value](const Members& set) {
          const auto other = set[0]->variant->group.find(axis);
          return set[0]->simulated == c.simulated && other != set[0]->variant->group.end() &&
                 other->second != value;
        }))
      parts.push_back(axis + " " + value);
  if (!c.variant->tuned.empty()) parts.emplace_back("tuned");
  if (c.simulated) parts.emplace_back("simulated");
  return parts.empty() ? "" : fmt::format("{}: ", fmt::join(parts, ", "));
}

double share_sent(const Compared* c) { return c->against_baseline("bytes_per_step")->mean; }

// Those that send the least share of the baseline's bytes, none of them shown to be worse.
std::string cheapest(const Members& least) {
  std::vector<std::string> names;
  double furthest = 0;
  bool judged = true;
  std::size_t fewest = kFewestRuns;
  for (const Compared* c : least) {
    names.push_back(c->variant->name);
    const auto score = *c->against_baseline("score");
    furthest = std::max(furthest, std::abs(score.mean));
    judged = judged && score.low;
    fewest = std::min(fewest, score.n);
  }
  const std::string extent = least.size() == 1
                                 ? against_text(*least[0], "score")
                                 : fmt::format("means within {:.2f} points", 100 * furthest);
  const double share = share_sent(least[0]);
  return capitalised(fmt::format(
      "{} {} {} of {}, and {} ({}{}).", listed(names), names.size() == 1 ? "sends" : "send",
      std::abs(share - 0.5) < 0.005 ? "half the bytes"
                                    : fmt::format("{:.2f} times the bytes", share),
      least[0]->baseline->variant->name,
      judged ? "no loss of accuracy is shown" : cant_tell(fewest) + " a loss of accuracy", extent,
      judged ? "; " + loss_text(least) : ""));
}

// The variants that send least without a loss of accuracy that is shown; then those that pay with
// accuracy.
std::vector<std::string> savings(const Members& set) {
  Members keeping;
  std::vector<std::string> losing;
  std::string baseline;
  for (const Compared* c : set) {
    const auto score = c->against_baseline("score"), bytes = c->against_baseline("bytes_per_step");
    if (!score || !bytes || bytes->mean >= 0.95) continue;  // a twentieth less is no saving
    baseline = c->baseline->variant->name;
    if (score->high && *score->high < 0)
      losing.push_back(fmt::format("{} ({})", c->variant->name, against_text(*c, "score")));
    else
      keeping.push_back(c);
  }
  std::vector<std::string> out;
  if (!keeping.empty()) {
    const double least = share_sent(*std::ranges::min_element(keeping, {}, share_sent));
    std::erase_if(keeping, [&](const Compared* c) { return share_sent(c) > 1.02 * least; });
    out.push_back(cheapest(keeping));
  }
  if (!losing.empty())
    out.push_back(fmt::format("What sends less than {} and pays with accuracy: {}.", baseline,
                              fmt::join(losing, "; ")));
  return out;
}

// Where nothing was learnt, time is what there is to choose by.
std::string fastest(const Members& set) {
  const auto time = [](const Compared* c) { return c->of("step_seconds"); };
  const Compared* best = nullptr;
  for (const Compared* c : set) {
    if (c->of("score")) return "";
    if (time(c) && (!best || time(c)->mean < time(best)->mean)) best = c;
  }
  if (!best) return "";
  const auto against = best->against_baseline("step_seconds");
  return fmt::format("Least mean time: {} with {} a step{}.", best->variant->name,
                     estimate_text(*time(best), figure("step_seconds")),
                     against ? fmt::format("; against {}: {}", best->baseline->variant->name,
                                           against_text(*best, "step_seconds"))
                             : "");
}

std::string best_score(const Members& set) {
  const Compared* best = nullptr;
  for (const Compared* c : set)
    if (c->of("score") && (!best || c->of("score")->mean > best->of("score")->mean)) best = c;
  if (!best) return "";
  const auto against = best->against_baseline("score");
  std::string verdict;
  if (best->baseline && against)
    verdict = fmt::format("; {} {} ({}{})",
                          !against->low          ? cant_tell(against->n) + " it from"
                          : against->excludes(0) ? "it differs from"
                                                 : "no difference is shown to",
                          best->baseline->variant->name, against_text(*best, "score"),
                          against->low ? "; " + loss_text({best}) : "");
  return fmt::format("Highest mean accuracy: {} with {}{}.", best->variant->name,
                     estimate_text(*best->of("score"), figure("score")), verdict);
}

void add(std::vector<std::string>& to, const std::string& prefix, const std::string& sentence) {
  if (!sentence.empty()) to.push_back(prefix + sentence);
}

void about_set(const Members& set, bool first, const std::string& prefix,
               std::vector<std::string>& out) {
  for (const std::string& sentence : savings(set)) add(out, prefix, sentence);
  if (set.size() < 2) return;
  add(out, prefix, fastest(set));
  add(out, prefix, best_score(set));
  const auto sentences = first ? differences(set, {"score", "target_seconds", "step_seconds",
                                                   "bytes_per_step", "busiest_bytes_per_step"})
                               : differences(set, {"score", "target_seconds", "step_seconds"});
  for (const std::string& sentence : sentences) add(out, prefix, sentence);
}

// How far simulated time a step is from the measured one that it was told to repeat.
std::string predictions(const Study& study, const std::vector<Compared>& all) {
  double furthest = 0;
  std::string who;
  int n = 0;
  for (const Compared& c : all) {
    const auto twin = std::ranges::find_if(
        all, [&](const Compared& t) { return t.variant->label == c.variant->twin; });
    if (twin == all.end() || !study.predicted(*c.variant)) continue;
    const auto mine = c.values.find("step_seconds"), its = twin->values.find("step_seconds");
    if (mine == c.values.end() || its == twin->values.end()) continue;
    const auto ratio = paired_ratio(its->second, mine->second);
    if (!ratio) continue;
    ++n;
    if (std::abs(ratio->mean - 1) >= std::abs(furthest)) {
      furthest = ratio->mean - 1;
      who = c.variant->label;
    }
  }
  if (n == 0) return "";
  return fmt::format(
      "Simulation is within {:.1f} % of the measured time a step for {} variants (furthest: {}, "
      "{:+.1f} %).",
      std::abs(100 * furthest), n, who, 100 * furthest);
}

}  // namespace

std::vector<std::string> findings(const Study& study, const std::vector<Compared>& all,
                                  const nlohmann::ordered_json& bench) {
  if (study.command != "train") return bench_findings(bench);
  std::vector<std::string> out;
  const auto sets = sets_of(all);
  constexpr std::size_t kMostSets = 4;  // the table has them all
  for (std::size_t s = 0; s < std::min(sets.size(), kMostSets); ++s) {
    about_set(sets[s], s == 0, where(*sets[s][0], sets), out);
    if (s > 0) continue;
    for (const ShownAxis& axis : study.axes)
      for (const std::string& sentence : along(axis, all)) out.push_back(sentence);
  }
  add(out, "", predictions(study, all));
  if (out.empty())
    for (const Compared& c : all)
      if (const auto score = c.of("score"))
        out.push_back(fmt::format("{}: accuracy {}.", capitalised(c.variant->label),
                                  estimate_text(*score, figure("score"))));
  if (out.empty()) out.emplace_back("No run is done yet: there is nothing to compare.");
  return out;
}

std::vector<std::string> notes(const Study& study, const std::vector<Compared>& all,
                               const Records& records) {
  std::vector<std::string> out;
  std::vector<std::string> crowded;
  std::size_t measured = 0;
  for (const Compared& c : all) {
    if (!c.simulated && !c.values.empty()) ++measured;
    if (c.oversubscribed) crowded.push_back(c.variant->label);
  }
  if (!crowded.empty()) {
    int cores = 0;
    for (const auto& [id, record] : records)
      if (const auto n = number_at(record.machine, "cores"); n.is_number()) cores = n.get<int>();
    const std::string whose = crowded.size() == measured
                                  ? "all measured variants"
                                  : fmt::format("{}", fmt::join(crowded, "; "));
    out.push_back(fmt::format(
        "More workers than the {} cores can run at once: wall times of {} are contention, and "
        "simulated seconds say more about time.",
        cores, whose));
  }
  constexpr std::size_t kMostTold = 5;  // the lists of runs and figures have them all
  std::size_t told = 0;
  for (const Run& run : study.runs)
    if (run.status == "failed" && ++told <= kMostTold)
      out.push_back(fmt::format("Run {} ({}, seed {}) failed: {}", run.id, run.variant, run.seed,
                                run.reason));
  if (told > kMostTold) out.push_back(fmt::format("{} more runs failed.", told - kMostTold));
  const std::size_t missing = study.runs.size() - study.count("done") - study.count("failed");
  if (missing > 0)
    out.push_back(fmt::format("{} of {} runs are missing: {}", missing, study.runs.size(),
                              missing_reason(study)));
  std::vector<std::string> partly;
  for (const Compared& c : all)
    if (const auto score = c.of("score"), target = c.of("target_seconds");
        target && score && target->n < score->n)
      partly.push_back(fmt::format("{} in {} of {} runs", c.variant->label, target->n, score->n));
  if (const std::size_t all_of_them = partly.size(); all_of_them > kMostTold) {
    partly.resize(kMostTold);
    partly.push_back(fmt::format("{} more variants in some", all_of_them - kMostTold));
  }
  if (!partly.empty())
    out.push_back(
        fmt::format("The target was reached by {}; a time to target is the mean of those.",
                    fmt::join(partly, "; by ")));
  const bool repeated = std::ranges::any_of(
      study.variants, [](const Variant& v) { return v.runs.size() >= kFewestRuns; });
  if (study.command == "train" && study.variants.size() > 1)
    out.push_back(repeated
                      ? "Intervals are 95 % of Student's t over seeds; differences and ratios are "
                        "paired by seed. With many comparisons one in twenty is outside by chance."
                      : "Fewer than three runs of each: there are no intervals, and nothing is "
                        "claimed about differences, nor that there are none.");
  return out;
}

}  // namespace lockstep::study
