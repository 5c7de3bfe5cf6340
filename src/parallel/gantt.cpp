#include "parallel/gantt.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include "core/units.h"

namespace lockstep {
namespace {

struct Letter {
  char letter;
  const char* meaning;
};

Letter letter_of(StagePass pass) {
  switch (pass) {
    case StagePass::forward:
      return {'F', "forward"};
    case StagePass::recompute:
      return {'R', "recompute"};
    case StagePass::backward:
      return {'B', "backward"};
    case StagePass::backward_inputs:
      return {'I', "backward of inputs"};
    case StagePass::backward_weights:
      break;
  }
  return {'W', "backward of weights"};
}

// A worker's roles have capital and small letters by turns.
bool is_small(const Layout& layout, int worker, const Action& action) {
  const auto roles = layout.roles_of(worker);
  const auto role = std::ranges::find(roles, Role{action.replica, action.stage});
  return (role - roles.begin()) % 2 == 1;
}

// Columns a second: enough for every action's text, unless that is wider than there is room for.
double scale_of(const PipelineSchedule& schedule, const Forecast& forecast, int room) {
  double shortest_s = forecast.makespan_s;
  for (const auto& timed : forecast.workers)
    for (const TimedAction& one : timed)
      if (one.end_s > one.begin_s) shortest_s = std::min(shortest_s, one.end_s - one.begin_s);
  if (shortest_s == 0) return 0;
  const double text = 1.0 + std::ssize(std::to_string(schedule.micros - 1));
  return std::min(text / shortest_s, room / forecast.makespan_s);
}

// Words one after another, on lines of at most `columns` letters.
std::string wrapped(const std::string& text, int columns) {
  std::string out;
  int used = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const int word = static_cast<int>(end - begin);
    if (used > 0) out += used + 1 + word > columns ? '\n' : ' ';
    used = used > 0 && used + 1 + word <= columns ? used + 1 + word : word;
    out.append(text, begin, end - begin);
    begin = end + 1;
  }
  return out + '\n';
}

const char* small_letters_of(StagePlacement placement) {
  switch (placement) {
    case StagePlacement::interleaved:
      return "small letters: every second chunk; ";
    case StagePlacement::folded:
      return "small letters: the later of a worker's two stages; ";
    case StagePlacement::gems:
      return "small letters: the replica that goes the other way; ";
    case StagePlacement::grid:
      break;
  }
  return "";
}

}  // namespace

std::string gantt(const PipelineSchedule& schedule, const Forecast& forecast, int columns) {
  const Layout layout = schedule.layout();
  const auto digits = std::to_string(schedule.workers - 1).size();
  const int room = std::max(1, columns - static_cast<int>(digits) - 10);
  const double scale = scale_of(schedule, forecast, room);
  const auto column = [&](double at_s) {
    return static_cast<std::size_t>(std::lround(at_s * scale));
  };
  std::string chart;
  std::set<StagePass> passes;
  int vanished = 0;
  for (int worker = 0; worker < schedule.workers; ++worker) {
    std::string line(column(forecast.makespan_s), '.');
    for (const TimedAction& one : forecast.workers[worker]) {
      passes.insert(one.action.pass);
      const std::size_t begin = column(one.begin_s), width = column(one.end_s) - begin;
      vanished += width == 0;
      std::string text(1, letter_of(one.action.pass).letter);
      if (is_small(layout, worker, one.action))
        text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
      const std::string number = std::to_string(one.action.micro);
      if (text.size() + number.size() <= width) text += number;
      text.resize(width, '=');
      line.replace(begin, width, text);
    }
    chart += fmt::format("worker {:>{}} |{}|\n", worker, digits, line);
  }
  std::string legend;
  for (const StagePass pass : passes)
    legend += fmt::format("{}{} {}", legend.empty() ? "" : ", ", letter_of(pass).letter,
                          letter_of(pass).meaning);
  legend += ", with the micro-batch's number; '=' goes on, '.' waits; ";
  legend += small_letters_of(schedule.placement);
  if (vanished > 0) legend += fmt::format("{} actions are too short to be seen; ", vanished);
  legend += fmt::format("a column is {}, all is {}, bubble {:.1f} %",
                        time_in_words(scale > 0 ? 1 / scale : 0),
                        time_in_words(forecast.makespan_s), 100 * forecast.bubble());
  return chart + wrapped(legend, columns);
}

}  // namespace lockstep
