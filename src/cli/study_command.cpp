// lockstep study
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <filesystem>
#include <utility>

#include "bench/pipes.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/interrupt.h"
#include "cli/train_view.h"
#include "cluster/blocked_signals.h"
#include "cluster/child.h"
#include "cluster/output.h"
#include "core/json_text.h"
#include "core/units.h"
#include "study/figures.h"
#include "study/plan.h"
#include "study/runner.h"
#include "study/study.h"
#include "train/result.h"
#include "transport/real_rank.h"

namespace lockstep {
namespace {

using namespace study;

constexpr std::size_t kMostErrors = 1 << 18;
constexpr double kGraceSeconds = 10;  // to write what there is to write after SIGINT
constexpr double kPauseSeconds = 2;   // to stop its workers after Ctrl-Z

std::vector<std::string> argv_of(const Order& order) {
  std::vector<std::string> argv{""};
  argv.insert(argv.end(), order.words.begin(), order.words.end());
  argv.push_back("--json");
  if (order.words.at(0) != "train") return argv;
  for (const std::string& word : {std::string("--tell"), std::string("--out"), order.folder})
    argv.push_back(word);
  return argv;
}

// Programs say last why they failed.
std::string last_line_of(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  constexpr std::string_view kOurs = "lockstep: ";
  const std::string line = text.substr(text.rfind('\n') + 1);  // all of it, if it is the only one
  return line.starts_with(kOurs) ? line.substr(kOurs.size()) : line;
}

// One run of a study as a child process of this same program, so that whatever happens to it
// happens to it alone.
class RunningChild {
 public:
  RunningChild(const Order& order, Watcher& watcher)
      : child_(argv_of(order), environment_with(Variables{}), -1),
        errors_([this, &watcher](std::string_view line) {
          if (!hear(line, watcher) && ending_.err.size() < kMostErrors)
            ending_.err.append(line).append("\n");
        }),
        end_(order.seconds > 0 ? wall_now() + order.seconds : 0) {}

  // Runs it to its end, or stops it (SIGINT, and after a grace SIGKILL) when its time is over or
  // `interrupt` becomes readable. Ctrl-Z makes it stand still with us. The watcher hears of its
  // steps.
  study::Ending run(int interrupt) {
    int out = child_.out_fd(), err = child_.err_fd();
    while (!child_.reap()) {
      pollfd events[] = {{child_.pid_fd(), POLLIN, 0},
                         {err, POLLIN, 0},
                         {out, POLLIN, 0},
                         {stopping() ? -1 : interrupt, POLLIN, 0},
                         {pauses_.fd(), POLLIN, 0}};
      poll(events, std::size(events), timeout_ms());
      if (pauses_.take() != 0) pause();
      if (events[3].revents != 0) stop(study::Ending::Kind::interrupted);
      if (!stopping() && end_ > 0 && wall_now() >= end_) stop(study::Ending::Kind::out_of_time);
      if (stopping() && wall_now() >= end_) child_.send(SIGKILL);
      if (events[1].revents != 0 && !errors_.read_from(err)) err = -1;
      if (events[2].revents != 0) take(out);
    }
    if (err >= 0) errors_.read_from(err);
    if (out >= 0) take(out);
    errors_.finish();
    ending_.status = shell_status(child_.wait_status());
    if (ending_.status != 0) ending_.reason = why();
    return std::move(ending_);
  }

 private:
  bool stopping() const { return ending_.kind != study::Ending::Kind::finished; }

  int timeout_ms() const {
    if (end_ <= 0) return -1;
    return static_cast<int>(std::clamp(end_ - wall_now(), 0.0, 1e5) * 1000) + 1;
  }

  void stop(study::Ending::Kind why) {
    ending_.kind = why;
    end_ = wall_now() + kGraceSeconds;
    child_.send(SIGINT);
  }

  void pause() {
    child_.pause(kPauseSeconds);
    const double paused_at = wall_now();
    raise(SIGSTOP);  // until somebody lets us go on
    if (end_ > 0) end_ += wall_now() - paused_at;
    child_.send(SIGCONT);
  }

  void take(int& out) {
    char buffer[65536];
    ssize_t got = 0;
    while ((got = read(out, buffer, sizeof buffer)) > 0)
      ending_.out.append(buffer, static_cast<std::size_t>(got));
    if (got == 0) out = -1;
  }

  std::string why() const {
    const std::string said = last_line_of(ending_.err);
    return said.empty() ? ending_text(child_.wait_status()) : said;
  }

  study::Ending ending_;
  BlockedSignals pauses_{{SIGTSTP}};
  Child child_;
  LinePrinter errors_;
  double end_;  // when its time is over, or its grace; 0: never
};

// What people see of a study while it runs: on a terminal one line that moves, else a line a run.
class StudyView : public study::RunWatcher, public Watcher {
 public:
  // `out` outlives this.
  explicit StudyView(Output& out) : out_(out), terminal_(isatty(out.descriptor()) != 0) {}

  ~StudyView() override { out_.say(cleared()); }

  void starts(const study::Run& run, std::size_t k, std::size_t n, double left_s) override {
    head_ = fmt::format("run {} of {}: {}, seed {}", k, n, run.variant, run.seed);
    left_s_ = left_s;
    started_ = wall_now();
    show("");
  }

  void ended(const study::Run& run, std::size_t k, std::size_t n) override {
    const std::string reason = run.reason.empty() ? "" : ": " + run.reason;
    out_.say(fmt::format("{}run {} of {}: {}, seed {}: {} after {}{}\n", cleared(), k, n,
                         run.variant, run.seed, run.status, time_in_words(run.seconds), reason));
  }

  // Of the run that goes on.
  void notice(const std::string&) override {}
  void step(const Progress& p) override {
    const double rate = p.training_s > 0 ? static_cast<double>(p.samples) / p.training_s : 0;
    const std::string of = p.steps > 0 ? fmt::format("/{}", p.steps) : "";
    show(fmt::format("  epoch {}  step {}{}  {:.0f} samples/s", p.epoch + 1, p.step, of, rate));
  }

  void score(const Score&, int) override {}

 private:
  void show(const std::string& doing) {
    if (!terminal_) return;
    const double left = std::max(0.0, left_s_ - (wall_now() - started_));
    const std::string time = left_s_ > 0 ? fmt::format("  {} left", time_in_words(left)) : "";
    out_.mention(fmt::format("\r\033[K{}{}{}", head_, doing, time));
    line_shown_ = true;
  }

  // What takes the progress line away, if one is shown.
  std::string cleared() { return std::exchange(line_shown_, false) ? "\r\033[K" : ""; }

  Output& out_;
  const bool terminal_;
  std::string head_;  // of the line
  double started_ = 0, left_s_ = 0;
  bool line_shown_ = false;
};

constexpr double kSaySeconds = 1;  // for a reader of our last words, once we were told to stop

constexpr const char* kExamples = R"(
A study is a TOML file: a base configuration, named variants, a grid over any flags, seeds. Each run
has a folder named by what it does, so a study that was stopped goes on where it was, and a changed
one runs only what is new. Failed runs are tried again by the next call.

Examples:
  lockstep study studies/averaging.toml --quick
  lockstep study studies/averaging.toml --dry-run
  lockstep study my.toml --out studies-out/mine
  lockstep report studies-out/mine
)";

// The runs, what there is to do for each, and the commands.
void print_plan(const Study& study, bool json) {
  for (const Run& run : study.runs) {
    const std::string command = command_line(study, run);
    if (json)
      fmt::print("{}\n", json_text({{"id", run.id},
                                    {"variant", run.variant},
                                    {"seed", run.seed},
                                    {"status", run.status},
                                    {"command", command}}));
    else
      fmt::print("{}  {:<7}  {}, seed {}\n    {}\n", run.id, run.status, run.variant, run.seed,
                 command);
  }
  if (json) return;
  fmt::print("{} runs, {} of them done", study.runs.size(), study.count("done"));
  if (!study.trials.empty())
    fmt::print("; then each variant again with the value that did best in its trials");
  fmt::print("\n");
}

class StudyCommand : public Command {
 public:
  explicit StudyCommand(CLI::App& application)
      : Command(application.add_subcommand(
            "study", "Run a grid of trainings or benchmarks and write the report")) {
    command_->add_option("STUDY", file_, "The study's TOML file; see docs/studies/README.md");
    command_->add_flag("--quick", quick_, "The small size: the file's [quick] settings");
    command_->add_option("--out", out_, "The study's folder (studies-out/NAME)");
    command_->add_flag("--json", json_, "The outcome as JSON on stdout, all else on stderr");
    command_->add_flag("--dry-run", dry_run_, "Check everything, print the runs, and stop");
    command_->footer(kExamples);
  }

  int run() const override {
    if (file_.empty())
      throw UsageError("which study? name its file, STUDY.toml, e.g. studies/averaging.toml");
    const StudyFile file = read_study(file_, quick_);
    const auto subject = subject_named(file.command);
    Study study = plan_study(file, *subject);
    if (dry_run_) {
      take_over(study, folder(), runs_before(folder()));
      print_plan(study, json_);
      return 0;
    }
    Output out(STDOUT_FILENO), err(STDERR_FILENO);
    StudyView view(json_ ? err : out);
    const Interrupt interrupt;
    const World world{
        [&](const Order& order) { return RunningChild(order, view).run(interrupt.descriptor()); },
        wall_now, [&] { return interrupt.requested(); }};
    Runner runner(study, folder(), world, view);
    bool whole = runner.run_until(0);
    if (whole && !study.trials.empty()) {
      add_tuned(study, file, *subject, [&](const std::string& run) {
        const RunRecord record = read_run(folder_of(folder(), study.run(run)));
        return record.done() ? figure("score").of(record) : std::nullopt;
      });
      runner.take_over();
    }
    whole = whole && runner.run_until(INT_MAX);
    runner.finish();
    const std::string report = write_products(folder());
    if (!whole) {
      for (Output* said : {&out, &err}) said->hurry(kSaySeconds);
      throw bench::Interrupted();
    }
    summary(study, report, out);
    return delivered(study.count("failed") > 0 ? 1 : 0, out, err, folder() + "/results.csv");
  }

 private:
  std::string folder() const {
    if (!out_.empty()) return no_flag(out_);
    const std::string name = std::filesystem::path(file_).stem().string();
    return "studies-out/" + name + (quick_ ? "-quick" : "");
  }

  void summary(const Study& study, const std::string& report, Output& out) const {
    const std::size_t failed = study.count("failed"), done = study.count("done");
    const std::size_t rest = study.runs.size() - done - failed;
    if (json_) {
      out.say(json_text({{"schema_version", 1},
                         {"folder", folder()},
                         {"report", report},
                         {"results", folder() + "/results.csv"},
                         {"runs", study.runs.size()},
                         {"done", done},
                         {"failed", failed},
                         {"not_run", rest}}) +
              "\n");
    } else {
      std::string text = fmt::format("{} of {} runs done", done, study.runs.size());
      if (failed > 0) text += fmt::format(", {} failed", failed);
      if (rest > 0) text += fmt::format(", {} not run: call again to go on", rest);
      out.say(fmt::format("{}\nresults: {}/results.csv\nreport: {}\n", text, folder(), report));
    }
  }

  std::string file_, out_;
  bool quick_ = false, json_ = false, dry_run_ = false;
};

}  // namespace

std::unique_ptr<Command> add_study(CLI::App& application) {
  return std::make_unique<StudyCommand>(application);
}

}  // namespace lockstep
