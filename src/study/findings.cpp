#include "study/findings.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/error.h"
#include "study/bench_findings.h"
#include "study/sentences.h"

namespace lockstep::study {
namespace {

using Members = std::vector<const Compared*>;

// Variants that can be held against each other: same point of the grid, all measured or all
// simulated, all tuned or none.
std::vector<Members> sets_of(const std::vector<Compared>& all) {
  std::vector<Members> sets;
  for (const Compared& c : all) {
    if (c.values.empty()) continue;
    const auto same = std::ranges::find_if(sets, [&](const Members& set) {
      const Compared& other = *set[0];
      return c.variant->group == other.variant->group && c.simulated == other.simulated &&
             c.variant->tuned.empty() == other.variant->tuned.empty();
    });
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

std::string scores_text(const Members& members) {
  std::vector<std::string> texts;
  for (const Compared* c : members)
    texts.push_back(fmt::format("{} ({})", c->variant->name, against_text(*c, "score")));
  return fmt::format("{}", fmt::join(texts, "; "));
}

double share_sent(const Compared* c) { return c->against_baseline("bytes_per_step")->mean; }

// "half the bytes", "0.31 times the bytes".
std::string share_text(double ratio) {
  return std::abs(ratio - 0.5) < 0.005 ? "half the bytes"
                                       : fmt::format("{:.2f} times the bytes", ratio);
}

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
  return capitalised(fmt::format(
      "{} {} {} of {}, and {} ({}{}).", listed(names), names.size() == 1 ? "sends" : "send",
      share_text(share_sent(least[0])), least[0]->baseline->variant->name,
      judged ? "no loss of accuracy is shown" : cant_tell(fewest) + " a loss of accuracy", extent,
      judged ? "; " + loss_text(least) : ""));
}

// Who sends least without a loss of accuracy that is shown; then who pays with accuracy.
std::vector<std::string> savings(const Members& set) {
  Members keeping, losing;
  for (const Compared* c : set) {
    const auto score = c->against_baseline("score"), bytes = c->against_baseline("bytes_per_step");
    if (!score || !bytes || bytes->mean >= 0.95) continue;  // a twentieth less is no saving
    (score->high && *score->high < 0 ? losing : keeping).push_back(c);
  }
  std::vector<std::string> out;
  if (!keeping.empty()) {
    const double least = share_sent(*std::ranges::min_element(keeping, {}, share_sent));
    std::erase_if(keeping, [&](const Compared* c) { return share_sent(c) > 1.02 * least; });
    out.push_back(cheapest(keeping));
  }
  if (!losing.empty())
    out.push_back(fmt::format("What sends less than {} and pays with accuracy: {}.",
                              losing[0]->baseline->variant->name, scores_text(losing)));
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
