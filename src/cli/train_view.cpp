#include "cli/train_view.h"

#include <fmt/format.h>
#include <unistd.h>

#include <iterator>

#include "core/units.h"
#include "transport/real_rank.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kShowEverySeconds = 0.2;
constexpr std::string_view kMark = "\x1elockstep ";  // no other line starts so

std::string told(const Json& what) {
  return fmt::format("{}{}\n", kMark, what.dump(-1, ' ', false, Json::error_handler_t::replace));
}

std::string told(const Progress& p) {
  return told(Json{{"step", {p.step, p.steps, p.epoch, p.loss, p.samples, p.training_s}}});
}

std::string straggler_in_words(const Json& s) {
  double all = 0;
  for (const Json& w : s["workers_detail"]) all += w["waited_for_seconds"].get<double>();
  const Json& it = s["workers_detail"][s["straggler"].get<std::size_t>()];
  return fmt::format("{} {} was waited for in {} of {} steps: {:.0f} % of all waiting, {} in all\n",
                     it["role"].get<std::string>(), it["rank"].get<int>(),
                     it["waited_for_steps"].get<std::uint64_t>(), s["steps"].get<std::uint64_t>(),
                     100 * it["waited_for_seconds"].get<double>() / all,
                     time_in_words(it["waited_for_seconds"].get<double>()));
}

std::string bandwidth_in_words(const Json& bits_per_second) {
  const double mbps = bits_per_second.get<double>() / 1e6;
  return mbps < 1000 ? fmt::format("{:.3g} Mbit/s", mbps)
                     : fmt::format("{:.3g} Gbit/s", mbps / 1e3);
}

// What it cost, what it saved, above which bandwidth it stops paying, and where this run was.
std::string compression_in_words(const Json& c) {
  const auto before = c["bytes_before"].get<double>(), after = c["bytes_after"].get<double>();
  const double coding_s = c["encode_seconds"].get<double>() + c["decode_seconds"].get<double>();
  std::string text =
      fmt::format("compression cost {} of encoding and {} of decoding on all ranks",
                  time_in_words(c["encode_seconds"]), time_in_words(c["decode_seconds"]));
  if (after >= before)
    return text + fmt::format(" and saved nothing ({} sent in place of {}): it never pays here\n",
                              bytes_in_words(after), bytes_in_words(before));
  text +=
      fmt::format(" and saved {} of {}", bytes_in_words(before - after), bytes_in_words(before));
  if (coding_s <= 0) return text + ": where coding is charged no time it always pays\n";
  const Json &even = c["break_even_bits_per_second"], &link = c["link_bits_per_second"];
  text += fmt::format("; it stops paying above {} a rank", bandwidth_in_words(even));
  if (link.is_null()) return text + "\n";
  // A line carries at least what its messages moved at.
  const bool measured = c["link_is_measured"], below = link.get<double>() < even.get<double>();
  return text + fmt::format(", and this run's {} {}, so it {}\n",
                            measured ? "messages moved at" : "links carry",
                            bandwidth_in_words(link),
                            !below     ? "did not pay"
                            : measured ? "seems to have paid"
                                       : "paid");
}

}  // namespace

TrainView::TrainView(Output& out, std::uint64_t epochs, bool tells)
    : out_(out),
      epochs_(epochs),
      tells_(tells),
      terminal_(!tells && isatty(out.descriptor()) != 0) {}

TrainView::~TrainView() { out_.say(cleared()); }

std::string TrainView::cleared() { return line_shown_.exchange(false) ? "\r\033[K" : ""; }

void TrainView::notice(const std::string& sentence) {
  const std::lock_guard lock(saying_);
  if (said_.insert(sentence).second) out_.say(fmt::format("{}note: {}\n", cleared(), sentence));
}

void TrainView::step(const Progress& p) {
  const double now = wall_now();
  if (!(terminal_ || tells_) || now < shown_at_ + kShowEverySeconds) return;
  shown_at_ = now;
  if (tells_) return out_.mention(told(p));
  const double rate = p.training_s > 0 ? static_cast<double>(p.samples) / p.training_s : 0;
  const double per_step = p.step > 0 ? p.training_s / static_cast<double>(p.step) : 0;
  const std::string of = p.steps > 0 ? fmt::format("/{}", p.steps) : "";
  const double left_s = per_step * static_cast<double>(p.steps - p.step);
  // The first worker of a pipeline does not know it.
  const std::string loss = p.loss != 0 ? fmt::format("  loss {:.4f}", p.loss) : "";
  out_.mention(fmt::format("\r\033[Kepoch {}  step {}{}{}  {:.0f} samples/s{}", p.epoch + 1, p.step,
                           of, loss, rate,
                           p.steps > 0 ? fmt::format("  {} left", time_in_words(left_s)) : ""));
  line_shown_ = true;
}

void TrainView::score(const Score& s, int epoch) {
  const std::string of = epochs_ > 0 ? fmt::format("/{}", epochs_) : "";
  const std::string overlap =
      s.dice && s.iou ? fmt::format("  Dice {:.2f} %  IoU {:.2f} %", 100 * *s.dice, 100 * *s.iou)
                      : "";
  out_.pass_on(fmt::format(
      "{}epoch {}{}  step {}  train loss {:.4f}  test loss {:.4f}  accuracy {:.2f} %{}  {}\n",
      cleared(), epoch + 1, of, s.steps, s.train_loss, s.loss, 100 * s.accuracy, overlap,
      time_in_words(s.training_s)));
}

void TrainView::summary(const Json& s, const std::string& folder) {
  std::string text = cleared();
  const auto add = [&](const auto& format, const auto&... values) {
    fmt::format_to(std::back_inserter(text), fmt::runtime(format), values...);
  };
  if (!s["score"].is_null())
    add("accuracy {:.2f} %", 100 * s["score"].get<double>());
  else
    add("no score");
  const char* time = s["simulated"].get<bool>() ? "of virtual training time" : "of training";
  add(" after {} steps in {} {}", s["steps"].get<std::uint64_t>(),
      time_in_words(s["train_seconds"].get<double>()), time);
  if (!s["samples_per_second"].is_null())
    add(", {:.0f} samples/s", s["samples_per_second"].get<double>());
  if (!s["steady_samples_per_second"].is_null())
    add(" ({:.0f} without start and tail)", s["steady_samples_per_second"].get<double>());
  add("\n");
  if (!s["compression"].is_null()) text += compression_in_words(s["compression"]);
  if (!s["overlap"].is_null())
    add("overlap: {} of exchange beside backward, in {} buckets\n",
        time_in_words(s["overlap"]["hidden_seconds"]), s["buckets"].size());
  if (!s["target_seconds"].is_null())
    add("target reached after {}, {} steps, {} sent by all\n",
        time_in_words(s["target_seconds"].get<double>()), s["target_steps"].get<std::uint64_t>(),
        bytes_in_words(s["target_bytes"]));
  if (const std::size_t damaged = s["damaged_files"].size(); damaged > 0)
    add("{} damaged files were left out and others stood in, e.g. {}\n", damaged,
        s["damaged_files"][0].get<std::string>());
  for (const Json& w : s["workers_detail"]) {
    const double total = w["compute_seconds"].get<double>() +
                         w["communicate_seconds"].get<double>() + w["wait_seconds"].get<double>();
    const auto share = [&](const char* name) {
      return total > 0 ? 100 * w[name].get<double>() / total : 0;
    };
    add("{} {}: compute {:.1f} %, communicate {:.1f} %, wait {:.1f} %, {} sent",
        w["role"].get<std::string>(), w["rank"].get<int>(), share("compute_seconds"),
        share("communicate_seconds"), share("wait_seconds"), bytes_in_words(w["bytes_sent"]));
    if (const auto merged = w["sends_merged"].get<std::uint64_t>(); merged > 0)
      add(", {} sends merged", merged);
    if (const auto withheld = w["sends_withheld"].get<std::uint64_t>(); withheld > 0)
      add(", {} sends withheld: nobody else trained", withheld);
    text += "\n";
  }
  if (!s["straggler"].is_null()) text += straggler_in_words(s);
  if (!folder.empty()) add("run: {}\n", folder);
  out_.say(text);
}

TellingWatcher::TellingWatcher() : out_(STDOUT_FILENO) {}

void TellingWatcher::notice(const std::string& sentence) {
  out_.say(told(Json{{"notice", sentence}}));
}

void TellingWatcher::step(const Progress& p) {
  const double now = wall_now();
  if (now < told_at_ + kShowEverySeconds) return;
  told_at_ = now;
  out_.mention(told(p));
}

void TellingWatcher::score(const Score& score, int epoch) {
  out_.say(told(Json{{"epoch", epoch}, {"score", to_json(score)}}));
}

bool hear(std::string_view line, Watcher& watcher) try {
  if (!line.starts_with(kMark)) return false;
  const auto told = nlohmann::json::parse(line.substr(kMark.size()));
  if (const auto notice = told.find("notice"); notice != told.end()) watcher.notice(*notice);
  if (const auto step = told.find("step"); step != told.end()) {
    const auto& s = *step;
    watcher.step({s.at(0), s.at(1), s.at(2), s.at(3).is_null() ? 0 : s.at(3).get<double>(), s.at(4),
                  s.at(5)});
  }
  if (const auto score = told.find("score"); score != told.end())
    watcher.score(score_from_json(*score), told.at("epoch"));
  return true;
} catch (const nlohmann::json::exception&) {
  return false;
}

}  // namespace lockstep
