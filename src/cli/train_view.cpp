#include "cli/train_view.h"

#include <fmt/format.h>
#include <unistd.h>

#include "transport/real_rank.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kShowEverySeconds = 0.2;
constexpr std::string_view kMark = "\x1elockstep ";  // no other line starts so

std::string time_in_words(double seconds) {
  if (seconds < 100) return fmt::format("{:.1f} s", seconds);
  const auto s = static_cast<long>(seconds);
  return s < 3600 ? fmt::format("{} min {} s", s / 60, s % 60)
                  : fmt::format("{} h {} min", s / 3600, s / 60 % 60);
}

std::string bytes_in_words(double bytes) {
  const char* const units[] = {"B", "KB", "MB", "GB", "TB"};
  int unit = 0;
  for (; bytes >= 1000 && unit < 4; ++unit) bytes /= 1000;
  return fmt::format("{:.{}f} {}", bytes, unit == 0 ? 0 : 1, units[unit]);
}

void tell(const Json& what) {
  fmt::print("{}{}\n", kMark, what.dump());
  std::fflush(stdout);
}

}  // namespace

TrainView::TrainView(std::FILE* out, std::uint64_t epochs)
    : out_(out), epochs_(epochs), terminal_(isatty(fileno(out)) != 0) {}

TrainView::~TrainView() { clear(); }

void TrainView::clear() {
  if (line_shown_) fmt::print(out_, "\r\033[K");
  line_shown_ = false;
}

void TrainView::notice(const std::string& sentence) {
  clear();
  fmt::print(out_, "note: {}\n", sentence);
  std::fflush(out_);
}

void TrainView::step(const Progress& p) {
  const double now = wall_now();
  if (!terminal_ || now < shown_at_ + kShowEverySeconds) return;
  shown_at_ = now;
  const double rate = p.training_s > 0 ? static_cast<double>(p.samples) / p.training_s : 0;
  const double per_step = p.step > 0 ? p.training_s / static_cast<double>(p.step) : 0;
  fmt::print(out_, "\r\033[Kepoch {}  step {}/{}  loss {:.4f}  {:.0f} samples/s  {} left",
             p.epoch + 1, p.step, p.steps, p.loss, rate,
             time_in_words(per_step * static_cast<double>(p.steps - p.step)));
  std::fflush(out_);
  line_shown_ = true;
}

void TrainView::score(const Score& s, int epoch) {
  clear();
  const std::string of = epochs_ > 0 ? fmt::format("/{}", epochs_) : "";
  fmt::print(
      out_, "epoch {}{}  step {}  train loss {:.4f}  test loss {:.4f}  accuracy {:.2f} %  {}\n",
      epoch + 1, of, s.steps, s.train_loss, s.loss, 100 * s.accuracy, time_in_words(s.training_s));
  std::fflush(out_);
}

void TrainView::summary(const Json& s, const std::string& folder) {
  clear();
  if (!s["score"].is_null())
    fmt::print(out_, "accuracy {:.2f} %", 100 * s["score"].get<double>());
  else
    fmt::print(out_, "no score");
  const char* time = s["simulated"].get<bool>() ? "of virtual training time" : "of training";
  fmt::print(out_, " after {} steps in {} {}", s["steps"].get<std::uint64_t>(),
             time_in_words(s["train_seconds"].get<double>()), time);
  if (!s["samples_per_second"].is_null())
    fmt::print(out_, ", {:.0f} samples/s", s["samples_per_second"].get<double>());
  fmt::print(out_, "\n");
  if (!s["target_seconds"].is_null())
    fmt::print(out_, "target reached after {}, {} steps, {} sent by all\n",
               time_in_words(s["target_seconds"].get<double>()),
               s["target_steps"].get<std::uint64_t>(), bytes_in_words(s["target_bytes"]));
  if (const std::size_t damaged = s["damaged_files"].size(); damaged > 0)
    fmt::print(out_, "{} damaged files were left out and others stood in, e.g. {}\n", damaged,
               s["damaged_files"][0].get<std::string>());
  for (const Json& w : s["workers_detail"]) {
    const double total = w["compute_seconds"].get<double>() +
                         w["communicate_seconds"].get<double>() + w["wait_seconds"].get<double>();
    const auto share = [&](const char* name) {
      return total > 0 ? 100 * w[name].get<double>() / total : 0;
    };
    fmt::print(out_, "{} {}: compute {:.1f} %, communicate {:.1f} %, wait {:.1f} %, {} sent\n",
               w["role"].get<std::string>(), w["rank"].get<int>(), share("compute_seconds"),
               share("communicate_seconds"), share("wait_seconds"),
               bytes_in_words(w["bytes_sent"]));
  }
  if (!folder.empty()) fmt::print(out_, "run: {}\n", folder);
  std::fflush(out_);
}

void TellingWatcher::notice(const std::string& sentence) { tell({{"notice", sentence}}); }

void TellingWatcher::step(const Progress& p) {
  const double now = wall_now();
  if (now < told_at_ + kShowEverySeconds) return;
  told_at_ = now;
  tell({{"step", {p.step, p.steps, p.epoch, p.loss, p.samples, p.training_s}}});
}

void TellingWatcher::score(const Score& score, int epoch) {
  tell({{"epoch", epoch}, {"score", to_json(score)}});
}

bool hear(std::string_view line, Watcher& watcher) {
  if (!line.starts_with(kMark)) return false;
  const auto told = nlohmann::json::parse(line.substr(kMark.size()), nullptr, false);
  if (told.is_discarded()) return false;
  if (const auto notice = told.find("notice"); notice != told.end()) watcher.notice(*notice);
  if (const auto step = told.find("step"); step != told.end()) {
    const auto& s = *step;
    watcher.step({s.at(0), s.at(1), s.at(2), s.at(3).is_null() ? 0 : s.at(3).get<double>(), s.at(4),
                  s.at(5)});
  }
  if (const auto score = told.find("score"); score != told.end())
    watcher.score(score_from_json(*score), told.at("epoch"));
  return true;
}

}  // namespace lockstep
