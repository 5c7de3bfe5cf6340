#include "strategies/rounds/round_mail.h"

#include <algorithm>

#include "core/error.h"
#include "transport/channels.h"
#include "transport/patient.h"

namespace lockstep {
namespace {

constexpr Tag kNotes = channels::kRoundNotes, kAnswers = channels::kRoundAnswers;

// The messages of a model. Statistics are no part of what strategies are compared by.
struct Part {
  Tag tag;
  Bytes bytes;
};
std::vector<Part> parts_of(const RoundModel& model, bool down) {
  const Tag weights = down ? channels::kRoundModelDown : channels::kRoundModelUp;
  const Tag statistics = down ? channels::kRoundStatisticsDown : channels::kRoundStatisticsUp;
  std::vector<Part> parts{{weights.with_format(model.weights.format()), model.weights.bytes()}};
  if (model.statistics.count() > 0) parts.push_back({statistics, model.statistics.bytes()});
  return parts;
}

}  // namespace

ModelCopy::ModelCopy(const RoundModel& from)
    : count_(from.weights.count()),
      weights_(from.weights.is_hollow() ? 0 : count_),
      statistics_(from.statistics.count()) {
  copy(view().weights.bytes(), from.weights.bytes());
  copy(view().statistics.bytes(), from.statistics.bytes());
}

RoundModel ModelCopy::view() const {
  return {weights_.empty() ? Values::hollow(count_, Type::fp32)
                           : Values(weights_.data(), count_, Type::fp32),
          Values(statistics_.data(), statistics_.size(), Type::fp32)};
}

ManagerMail::ManagerMail(Transport& peers, int workers) : peers_(peers), workers_(workers) {
  for (int w = 0; w < workers; ++w) expect_note(w);
}

int ManagerMail::present() const {
  return static_cast<int>(std::ranges::count_if(workers_, &Worker::here));
}

void ManagerMail::expect_note(int worker) {
  open_.push_back(
      {nullptr, worker, What::note, peers_.recv(worker, kNotes, bytes_of(*workers_[worker].note))});
}

void ManagerMail::take(int worker, const RoundModel& into) {
  if (!has(worker)) return;
  for (const Part& part : parts_of(into, false)) {
    open_.push_back({nullptr, worker, What::part, peers_.recv(worker, part.tag, part.bytes)});
    ++workers_[worker].parts;
  }
}

void ManagerMail::send(int worker, Tag tag, ConstBytes bytes, std::shared_ptr<const void> kept) {
  if (has(worker))
    open_.push_back({std::move(kept), worker, What::sent, peers_.send(worker, tag, bytes)});
}

void ManagerMail::answer(int worker, const RoundNote& note,
                         const std::shared_ptr<const ModelCopy>& model) {
  const auto kept = std::make_shared<const RoundNote>(note);
  send(worker, kAnswers, {kept.get(), sizeof *kept}, kept);
  if (!model) return;
  for (const Part& part : parts_of(model->view(), true)) send(worker, part.tag, part.bytes, model);
}

void ManagerMail::ended(const Open& open) {
  Worker& worker = workers_[open.worker];
  if (!worker.here) return;
  if (open.what == What::part && --worker.parts == 0)
    events_.push_back({Event::Kind::model, open.worker});
  if (open.what != What::note) return;
  events_.push_back({Event::Kind::note, open.worker, *worker.note});
  expect_note(open.worker);
}

void ManagerMail::lose(int worker) {
  if (!has(worker)) return;
  std::vector<Open> all;
  all.swap(open_);
  for (Open& open : all) {
    if (open.worker != worker) {
      open_.push_back(std::move(open));
      continue;
    }
    const auto ending = peers_.test(open.pending.request());
    if (ending && ending->arrived()) ended(open);  // what it had still sent
  }
  workers_[worker].here = false;
  events_.push_back({Event::Kind::gone, worker});
}

std::optional<ManagerMail::Event> ManagerMail::next(Deadline deadline) {
  while (events_.empty()) {
    if (present() == 0) return {};
    std::vector<Request> requests;
    std::vector<std::size_t> which;
    for (std::size_t i = 0; i < open_.size(); ++i)
      if (has(open_[i].worker)) {
        requests.push_back(open_[i].pending.request());
        which.push_back(i);
      }
    const Ending ending = peers_.wait_any(requests, deadline);
    if (ending.late()) return {};
    const auto at = open_.begin() + static_cast<std::ptrdiff_t>(which[ending.index]);
    at->pending.ended();
    const Open open = std::move(*at);
    open_.erase(at);
    if (ending.gone())
      lose(open.worker);
    else
      ended(open);
  }
  const Event event = events_.front();
  events_.pop_front();
  return event;
}

void WorkerMail::wait(Pending&& pending) { wait_while_it_lives(peers_, pending); }

RoundNote WorkerMail::next_answer() {
  RoundNote answer;
  wait(peers_.recv(manager_, kAnswers, bytes_of(answer)));
  return answer;
}

RoundNote WorkerMail::ask(const RoundNote& note) {
  wait(peers_.send(manager_, kNotes, {&note, sizeof note}));
  return next_answer();
}

RoundNote WorkerMail::want() {
  RoundNote answer = ask({});
  // The end of the last task's round may have crossed the question.
  while (answer.kind == RoundNote::Kind::refused) answer = next_answer();
  return answer;
}

void WorkerMail::receive(const RoundModel& into) {
  for (const Part& part : parts_of(into, true)) wait(peers_.recv(manager_, part.tag, part.bytes));
}

bool WorkerMail::is_refused() {
  if (!peers_.probe(manager_, kAnswers)) return false;
  next_answer();  // nothing else comes unasked
  return true;
}

bool WorkerMail::hand_in(const RoundNote& note, const std::optional<RoundModel>& model) {
  if (ask(note).kind != RoundNote::Kind::granted) return false;
  if (!model) return true;
  for (const Part& part : parts_of(*model, false))
    wait(peers_.send(manager_, part.tag, part.bytes));
  return true;
}

}  // namespace lockstep
