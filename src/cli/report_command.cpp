// lockstep report DIR|FILE.csv
#include <fmt/format.h>

#include <filesystem>

#include "cli/commands.h"
#include "cli/study_products.h"
#include "core/error.h"
#include "core/json_text.h"
#include "core/whole_file.h"
#include "study/chart.h"

namespace lockstep {
namespace {

class ReportCommand : public Command {
 public:
  explicit ReportCommand(CLI::App& application);
  int run() const override;

 private:
  void draw(const std::string& csv) const;

  std::string folder_, svg_, csv_;
  study::ChartRequest chart_;
  bool json_ = false;
};

ReportCommand::ReportCommand(CLI::App& application)
    : Command(application.add_subcommand(
          "report", "Render report.html again from a folder, or draw a figure of its CSV")) {
  command_->add_option("DIR", folder_, "A study's folder, or a run's; or a study's results.csv");
  command_->add_flag("--json", json_, "The outcome as JSON on stdout");
  command_->add_option("--csv", csv_,
                       "Also write a study's results here, and its curves beside: NAME.csv and "
                       "NAME-curves.csv");
  command_->add_option("--svg", svg_, "Draw a figure of the study's results.csv into this file");
  command_->add_option("--y", chart_.y, "What the figure shows: a column (score)");
  command_->add_option("--x", chart_.x,
                       "Over what: a column, or an axis of the study; without it there are bars. "
                       "Of curves: step, seconds, bytes or epoch");
  command_->add_option("--series", chart_.series,
                       "What makes a line: a column or an axis (the variant)");
  command_->add_option("--where", chart_.where, "Only rows with NAME=VALUE; may be repeated")
      ->take_all();
  command_->add_option("--title", chart_.title, "The figure's title");
  command_->add_flag("--log-x", chart_.x_log, "A logarithmic scale");
  command_->add_flag("--log-y", chart_.y_log, "A logarithmic scale");
  command_->footer(
      "\nExamples:\n  lockstep report studies-out/averaging-quick\n  lockstep report runs/RUN\n"
      "  lockstep report studies-out/distance --csv docs/studies/distance.csv\n"
      "  lockstep report docs/studies/distance.csv --svg docs/studies/distance.svg \\\n"
      "    --y samples_per_second --x latency --series strategy\n"
      "  lockstep report studies-out/averaging/curves.csv --svg curve.svg --x seconds");
}

void ReportCommand::draw(const std::string& csv) const {
  const study::CsvTable table = study::csv_table(read_whole(csv), csv);
  write_whole(svg_, study::svg_of(study::chart_of(table, chart_, csv)));
}

int ReportCommand::run() const {
  if (folder_.empty()) throw UsageError("a report of what? name a study's folder, or a run's");
  nlohmann::ordered_json outcome = {{"schema_version", 1}};
  if (std::filesystem::is_directory(folder_)) {
    outcome["report"] = write_products(folder_);
    if (!csv_.empty()) write_csv(folder_, csv_), outcome["csv"] = csv_;
    if (!svg_.empty()) draw(folder_ + "/results.csv"), outcome["svg"] = svg_;
  } else if (svg_.empty()) {
    throw UsageError(fmt::format(
        "{} is no folder: name a study's folder or a run's, or give --svg for a figure of a CSV",
        folder_));
  } else {
    draw(folder_);
    outcome["svg"] = svg_;
  }
  if (json_) {
    fmt::print("{}\n", json_text(outcome));
    return 0;
  }
  for (const char* made : {"report", "csv", "svg"})
    if (outcome.contains(made)) fmt::print("{}: {}\n", made, outcome[made].get<std::string>());
  return 0;
}

}  // namespace

std::unique_ptr<Command> add_report(CLI::App& application) {
  return std::make_unique<ReportCommand>(application);
}

}  // namespace lockstep
