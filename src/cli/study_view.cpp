#include "cli/study_view.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "core/units.h"
#include "transport/real_rank.h"

namespace lockstep {

StudyView::StudyView(Output& out) : out_(out), terminal_(isatty(out.descriptor()) != 0) {}

std::string StudyView::cleared() { return std::exchange(line_shown_, false) ? "\r\033[K" : ""; }

void StudyView::show(const std::string& doing) {
  if (!terminal_) return;
  const double left = std::max(0.0, left_s_ - (wall_now() - started_));
  const std::string time = left_s_ > 0 ? fmt::format("  {} left", time_in_words(left)) : "";
  out_.mention(fmt::format("\r\033[K{}{}{}", head_, doing, time));
  line_shown_ = true;
}

void StudyView::starts(const study::Run& run, std::size_t k, std::size_t n, double left_s) {
  head_ = fmt::format("run {} of {}: {}, seed {}", k, n, run.variant, run.seed);
  left_s_ = left_s;
  started_ = wall_now();
  show("");
}

void StudyView::ended(const study::Run& run, std::size_t k, std::size_t n) {
  const std::string reason = run.reason.empty() ? "" : ": " + run.reason;
  out_.say(fmt::format("{}run {} of {}: {}, seed {}: {} after {}{}\n", cleared(), k, n, run.variant,
                       run.seed, run.status, time_in_words(run.seconds), reason));
}

void StudyView::step(const Progress& p) {
  const double rate = p.training_s > 0 ? static_cast<double>(p.samples) / p.training_s : 0;
  const std::string of = p.steps > 0 ? fmt::format("/{}", p.steps) : "";
  show(fmt::format("  epoch {}  step {}{}  {:.0f} samples/s", p.epoch + 1, p.step, of, rate));
}

}  // namespace lockstep
