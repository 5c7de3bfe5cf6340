#include "cluster/remote_tasks.h"

#include <algorithm>

#include "cluster/Control.h"
#include "cluster/protocol_constants.h"
#include "cluster/task_pages.h"
#include "core/error.h"

namespace lockstep {

namespace {

TaskState state_of(const protocol::TaskLine& line) {
  return {.kind = static_cast<TaskState::Kind>(line.kind),
          .holder = line.holder,
          .issues = line.issues,
          .loss = line.loss,
          .samples = static_cast<std::uint64_t>(line.samples)};
}

}  // namespace

void RemoteTasks::open(std::uint64_t round, const std::vector<std::vector<std::uint32_t>>& tasks,
                       const RoundRules& rules) {
  const std::size_t page = protocol::g_protocol_constants.INDICES_A_PAGE;
  membership_.ask([&](auto& control) {
    control.prepare_round(static_cast<std::int64_t>(round), static_cast<int>(tasks.size()),
                          rules.give_up_s, rules.reissue);
  });
  for (std::size_t k = 0; k < tasks.size(); ++k)
    for (std::size_t first = 0; first < tasks[k].size(); first += page) {
      const auto some = std::span(tasks[k]).subspan(first, std::min(page, tasks[k].size() - first));
      membership_.ask(
          [&](auto& control) { control.add_indices(static_cast<int>(k), text_of(some)); });
    }
  membership_.ask([](auto& control) { control.begin_round(); });
}

RoundState RemoteTasks::look() {
  RoundState state;
  protocol::Round round;
  do {
    round = {};
    membership_.ask(
        [&](auto& control) { control.look_at_round(round, static_cast<int>(state.tasks.size())); });
    for (const protocol::TaskLine& line : round.tasks) state.tasks.push_back(state_of(line));
  } while (!round.tasks.empty() && std::ssize(state.tasks) < round.count);
  state.round = static_cast<std::uint64_t>(round.number);
  state.next_in_s = round.next_in_s;
  return state;
}

void RemoteTasks::bury(int rank) {
  membership_.ask([&](auto& control) { control.bury(rank); });
}

void RemoteTasks::take_back(int task) {
  membership_.ask([&](auto& control) { control.take_back(task); });
}

void RemoteTasks::close() {
  membership_.ask([](auto& control) { control.close_rounds(); });
}

TaskOffer RemoteTasks::take() {
  for (;;) {
    protocol::Handed handed;
    membership_.ask([&](auto& control) { control.take_task(handed); });
    TaskOffer offer{static_cast<TaskOffer::Kind>(handed.kind),
                    {static_cast<std::uint64_t>(handed.round), handed.task, {}}};
    std::vector<std::uint32_t>& indices = offer.task.indices;
    if (offer.kind != TaskOffer::Kind::task) return offer;
    std::string page;
    do {
      membership_.ask([&](auto& control) {
        control.task_page(page, handed.round, handed.task, std::ssize(indices));
      });
      const std::vector<std::uint32_t> more = indices_in(page);
      indices.insert(indices.end(), more.begin(), more.end());
    } while (!page.empty() && std::ssize(indices) < handed.count);
    if (std::ssize(indices) == handed.count) return offer;  // else the round was over in between
  }
}

bool RemoteTasks::report(const TaskReport& report) {
  bool counts = false;
  membership_.ask([&](auto& control) {
    counts = control.report_task(static_cast<std::int64_t>(report.round), report.task, report.loss,
                                 static_cast<std::int64_t>(report.samples));
  });
  return counts;
}

}  // namespace lockstep
