#include "strategies/rounds/round_mail.h"

#include <algorithm>
#include <filesystem>

#include "core/error.h"
#include "core/whole_file.h"
#include "transport/channels.h"
#include "transport/patient.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr Tag kNotes = channels::kRoundNotes, kAnswers = channels::kRoundAnswers;
constexpr int kDigits = 8;             // of a round in a file's name
constexpr std::size_t kSumBytes = 64;  // after the numbers: their checksum, in hexadecimal

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
  if (open.what == What::part && --worker.parts == 0)
    events_.push_back({Event::Kind::model, open.worker});
  if (open.what != What::note) return;
  events_.push_back({Event::Kind::note, open.worker, *worker.note});
  expect_note(open.worker);
}

void ManagerMail::lose(int worker) {
  for (Open& open : std::exchange(open_, {})) {
    if (open.worker != worker) {
      open_.push_back(std::move(open));
      continue;
    }
    const auto ending = peers_.test(open.pending.request());
    if (ending && ending->arrived()) ended(open);  // what it had still sent
  }
  std::erase_if(open_, [&](const Open& open) { return open.worker == worker; });
  workers_[worker].here = false;
  events_.push_back({Event::Kind::gone, worker});
}

std::optional<ManagerMail::Event> ManagerMail::next(Deadline deadline) {
  while (events_.empty()) {
    if (present() == 0) return {};
    std::vector<Request> requests;
    for (const Open& open : open_) requests.push_back(open.pending.request());
    const Ending ending = peers_.wait_any(requests, deadline);
    if (ending.late()) return {};
    const auto at = open_.begin() + static_cast<std::ptrdiff_t>(ending.index);
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

RoundFiles::RoundFiles(const std::string& run_folder) : folder_(run_folder + "/exchange") {
  fs::create_directories(folder_);
}

std::string RoundFiles::of_round(std::uint64_t round) {
  return fmt::format("{:0{}}.model", round, kDigits);
}

std::string RoundFiles::of_result(std::uint64_t round, int task, int worker) {
  return fmt::format("{:0{}}-task{}-rank{}.model", round, kDigits, task, worker);
}

void RoundFiles::write(const std::string& name, const RoundModel& model) const {
  std::string text;
  for (const Bytes part : {model.weights.bytes(), model.statistics.bytes()})
    if (part.size > 0) text.append(reinterpret_cast<const char*>(part.data), part.size);
  write_whole(path_of(name), text + checksum({text.data(), text.size()}));
}

bool RoundFiles::read(const std::string& name, const RoundModel& into) const {
  const std::string path = path_of(name);
  std::string text;
  try {
    text = read_whole(path);
  } catch (const UsageError&) {
    if (!fs::exists(path)) return false;
    throw;
  }
  const Bytes weights = into.weights.bytes(), statistics = into.statistics.bytes();
  const std::size_t size = weights.size + statistics.size;
  if (text.size() != size + kSumBytes)
    throw UsageError(
        fmt::format("{} is cut, or not of this network: it has {} bytes where {} are expected",
                    path, text.size(), size + kSumBytes));
  if (checksum({text.data(), size}) != text.substr(size))
    throw UsageError(fmt::format("{} is damaged: its checksum is not that of its numbers", path));
  copy(weights, {text.data(), weights.size});
  copy(statistics, {text.data() + weights.size, statistics.size});
  return true;
}

void RoundFiles::remove(const std::string& name) const {
  std::error_code ignored;
  fs::remove(path_of(name), ignored);
}

void RoundFiles::throw_not_shared(const std::string& what) const {
  throw UsageError(
      fmt::format("{} is not in {}: all hosts must share the run's folder, or use "
                  "exchange=messages",
                  what, folder_));
}

void RoundFiles::remove_until(std::uint64_t round) const {
  const std::string last = fmt::format("{:0{}}", round, kDigits);
  std::error_code ignored;
  for (const fs::directory_entry& file : fs::directory_iterator(folder_, ignored))
    if (file.path().extension() != ".partial" &&
        file.path().filename().string().substr(0, kDigits) <= last)
      fs::remove(file, ignored);
}

void RoundFiles::remove_all() const {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

}  // namespace lockstep
