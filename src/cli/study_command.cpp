#include "cli/study_command.h"

#include <unistd.h>

#include <climits>
#include <filesystem>

#include "bench/pipes.h"
#include "cli/delivery.h"
#include "cli/flags.h"
#include "cli/interrupt.h"
#include "cli/study_child.h"
#include "cli/study_products.h"
#include "cli/study_subject.h"
#include "cli/study_view.h"
#include "study/plan.h"
#include "study/results.h"
#include "train/json_text.h"
#include "transport/real_rank.h"

namespace lockstep {
namespace {

using namespace study;

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

}  // namespace

StudyCommand::StudyCommand(CLI::App& application)
    : command_(application.add_subcommand(
          "study", "Run a grid of trainings or benchmarks and write the report")) {
  command_->add_option("STUDY", file_, "The study's TOML file; see docs/studies/README.md");
  command_->add_flag("--quick", quick_, "The small size: the file's [quick] settings");
  command_->add_option("--out", out_, "The study's folder (studies-out/NAME)");
  command_->add_flag("--json", json_, "The outcome as JSON on stdout, all else on stderr");
  command_->add_flag("--dry-run", dry_run_, "Check everything, print the runs, and stop");
  command_->footer(kExamples);
}

std::string StudyCommand::folder() const {
  if (!out_.empty()) return no_flag(out_);
  const std::string name = std::filesystem::path(file_).stem().string();
  return "studies-out/" + name + (quick_ ? "-quick" : "");
}

int StudyCommand::run() const {
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
      [&](const Order& order) { return run_child(order, interrupt.descriptor(), view); }, wall_now,
      [&] { return interrupt.requested(); }};
  Runner runner(study, folder(), world, view);
  bool whole = runner.run_until(0);
  if (whole && !study.trials.empty()) {
    add_tuned(study, file, *subject,
              [&](const std::string& run) { return figure_of(study, folder(), run, "score"); });
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

void StudyCommand::summary(const Study& study, const std::string& report, Output& out) const {
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

}  // namespace lockstep
