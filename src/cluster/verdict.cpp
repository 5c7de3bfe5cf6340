#include "cluster/verdict.h"

#include <fmt/format.h>

#include <algorithm>

#include "cluster/child.h"

namespace lockstep {
namespace {

struct Culprit {
  int rank = -1;
  std::string why;
};

// What the first that gave up because of it says, and that is more than the death alone.
std::string consequence(int culprit, const Members& members) {
  for (const Survivor& survivor : members.survivors()) {
    const bool says_more = !survivor.reason.starts_with(fmt::format("rank {} ", culprit));
    if (survivor.blamed == culprit && survivor.rank != culprit && says_more)
      return fmt::format(", and rank {} gave up: {}", survivor.rank, survivor.reason);
  }
  return "";
}

// The rank that survivors gave up for. Where losses are tolerated, earlier ones are no reason for
// the end.
Culprit blamed_by_survivors(const Members& members) {
  const Survivor first = members.survivors()[0];
  for (const protocol::Death& death : members.deaths())
    if (death.rank == first.blamed) return {death.rank, death.reason};
  return {first.rank, first.reason};
}

// The rank that failed first.
Culprit culprit(const std::vector<ProcessEnd>& ends, const Members& members, bool goes_on) {
  const auto deaths = members.deaths();
  const auto survivors = members.survivors();
  if (!survivors.empty() && (goes_on || deaths.empty())) return blamed_by_survivors(members);
  if (!deaths.empty()) return {deaths[0].rank, deaths[0].reason};
  // It failed after it had left the job in good order.
  for (int r = 0; r < std::ssize(ends); ++r)
    if (!ends[r].stopped_by_us && ends[r].wait_status != 0)
      return {r, "it " + ending_text(ends[r].wait_status)};
  return {};
}

// Those that ended when all were told to are not among them.
std::string lost_before(const std::vector<ProcessEnd>& ends, const Members& members) {
  std::string text;
  for (const protocol::Death& death : members.deaths())
    if (!ends[death.rank].stopped_by_us)
      text += fmt::format("; rank {} was lost before", death.rank);
  return text;
}

}  // namespace

bool has_failed(const Members& members, bool goes_on) {
  if (!members.survivors().empty()) return true;
  if (goes_on && members.missing(3).empty()) return false;
  // A process that ended well before anybody joined is no failure: it may be no worker of ours at
  // all.
  return static_cast<int>(members.missing().size()) < members.size() && !members.deaths().empty();
}

Verdict judge(const std::vector<ProcessEnd>& ends, const Members& members, bool goes_on,
              int told_to_stop) {
  int worst = 0;
  bool stopped_any = false, one_went_well = false;
  for (const ProcessEnd& end : ends) {
    stopped_any |= end.stopped_by_us;
    one_went_well |= end.wait_status == 0;
    if (!end.stopped_by_us) worst = std::max(worst, shell_status(end.wait_status));
  }
  const bool failed = has_failed(members, goes_on);
  const Culprit first = worst != 0 || failed ? culprit(ends, members, goes_on) : Culprit();
  const std::string told =
      fmt::format("told to stop by {}; all workers were stopped", signal_text(told_to_stop));
  // A rank that gave up then had only seen that the others were stopped.
  if (told_to_stop != 0 && goes_on && (!failed || ends[first.rank].stopped_by_us))
    return {128 + told_to_stop, told + lost_before(ends, members)};
  if (worst != 0 && goes_on && !failed && one_went_well)
    return {0,
            fmt::format("{} was lost: {}; the others went on", ends[first.rank].name, first.why)};
  Verdict verdict{worst, ""};
  if (first.rank >= 0) {
    const ProcessEnd& end = ends[first.rank];
    const std::string ending = ending_text(end.wait_status);
    const bool by_itself = !end.stopped_by_us && first.why.find(ending) != std::string::npos;
    verdict.sentence =
        fmt::format("{} {}{}", end.name, by_itself ? ending : fmt::format("failed: {}", first.why),
                    consequence(first.rank, members));
    if (ends.size() > 1)
      verdict.sentence += stopped_any ? "; the others were stopped" : "; the others ended too";
    verdict.status = std::max(worst, 1);
  }
  if (told_to_stop != 0) {
    if (first.rank < 0) verdict.sentence = told;
    verdict.status = 128 + told_to_stop;
  }
  return verdict;
}

}  // namespace lockstep
