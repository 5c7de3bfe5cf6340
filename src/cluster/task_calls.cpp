// The coordinator's answers about tasks: the book's, one call each.
#include <algorithm>

#include "cluster/control_handler.h"
#include "cluster/protocol_constants.h"
#include "cluster/task_pages.h"

namespace lockstep {

namespace {

constexpr std::size_t kLinesAPage = 512;  // a frame holds twice as many

protocol::TaskLine line_of(const TaskState& task) {
  protocol::TaskLine line;
  line.kind = static_cast<int>(task.kind);
  line.holder = task.holder;
  line.issues = task.issues;
  line.loss = task.loss;
  line.samples = static_cast<std::int64_t>(task.samples);
  return line;
}

}  // namespace

void ControlHandler::prepare_round(int64_t round, int32_t tasks, double give_up_s, bool reissue) {
  serve([&](int rank) {
    tasks_.prepare(rank, static_cast<std::uint64_t>(round), tasks, {give_up_s, reissue});
  });
}

void ControlHandler::add_indices(int32_t task, const std::string& indices) {
  serve([&](int rank) { tasks_.add(rank, task, indices_in(indices)); });
}

void ControlHandler::begin_round() {
  serve([&](int rank) { tasks_.begin(rank, clock_.now()); });
}

void ControlHandler::look_at_round(protocol::Round& round, int32_t first) {
  serve([&](int rank) {
    const RoundState state = tasks_.look(rank, clock_.now());
    round.number = static_cast<std::int64_t>(state.round);
    round.count = static_cast<int>(state.tasks.size());
    round.next_in_s = state.next_in_s;
    const std::size_t begin = std::min<std::size_t>(std::max(first, 0), state.tasks.size());
    const std::size_t end = std::min(state.tasks.size(), begin + kLinesAPage);
    for (std::size_t k = begin; k < end; ++k) round.tasks.push_back(line_of(state.tasks[k]));
  });
}

void ControlHandler::bury(int32_t dead) {
  serve([&](int) { tasks_.bury(dead); });
}

void ControlHandler::take_back(int32_t task) {
  serve([&](int rank) { tasks_.take_back(rank, task, clock_.now()); });
}

void ControlHandler::close_rounds() {
  serve([&](int rank) { tasks_.close(rank); });
}

void ControlHandler::take_task(protocol::Handed& handed) {
  serve([&](int rank) {
    const TaskBook::Handed task = tasks_.take(rank, clock_.now());
    handed.kind = static_cast<int>(task.kind);
    handed.round = static_cast<std::int64_t>(task.round);
    handed.task = task.task;
    handed.count = static_cast<std::int64_t>(task.count);
  });
}

void ControlHandler::task_page(std::string& indices, int64_t round, int32_t task, int64_t first) {
  serve([&](int) {
    indices = text_of(tasks_.page(static_cast<std::uint64_t>(round), task,
                                  static_cast<std::size_t>(std::max<std::int64_t>(first, 0)),
                                  protocol::g_protocol_constants.INDICES_A_PAGE));
  });
}

bool ControlHandler::report_task(int64_t round, int32_t task, double loss, int64_t samples) {
  bool counts = false;
  serve([&](int rank) {
    counts = tasks_.report(
        rank, {static_cast<std::uint64_t>(round), task, loss, static_cast<std::uint64_t>(samples)});
  });
  return counts;
}

}  // namespace lockstep
