// lockstep report DIR|FILE.csv
#include <fmt/chrono.h>

#include <ctime>
#include <filesystem>

#include "cli/commands.h"
#include "core/error.h"
#include "core/json_text.h"
#include "core/whole_file.h"
#include "study/chart.h"
#include "study/report_data.h"
#include "web/report_page.h"

namespace lockstep {
namespace {

using namespace study;
namespace fs = std::filesystem;

// The page with its data in it. Its path.
std::string write_report(const std::string& folder, const nlohmann::ordered_json& data) {
  const std::string path = folder + "/report.html";
  write_whole(path, render_report(json_text(data)));
  return path;
}

Study study_in(const std::string& folder) {
  const std::string path = study_file_in(folder);
  return study_from(json_in(read_whole(path)), path);
}

// `results` and `curves`: their paths.
void write_csv(const Study& study, const std::string& folder, const std::string& results,
               const fs::path& curves) {
  const Records records = read_runs(study, folder);
  write_whole(results, results_csv(study, records, curves.filename().string()));
  if (study.command == "train") write_whole(curves.string(), curves_csv(study, records));
}

class ReportCommand : public Command {
 public:
  explicit ReportCommand(CLI::App& application)
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

  int run() const override {
    if (folder_.empty()) throw UsageError("a report of what? name a study's folder, or a run's");
    nlohmann::ordered_json outcome = {{"schema_version", 1}};
    if (fs::is_directory(folder_)) {
      outcome["report"] = write_products(folder_);
      if (!csv_.empty()) {
        const fs::path path(csv_);
        write_csv(study_in(folder_), folder_, csv_,
                  path.parent_path() / (path.stem().string() + "-curves.csv"));
        outcome["csv"] = csv_;
      }
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

 private:
  void draw(const std::string& csv) const {
    write_whole(svg_, svg_of(chart_of(csv_table(read_whole(csv), csv), chart_, csv)));
  }

  std::string folder_, svg_, csv_;
  ChartRequest chart_;
  bool json_ = false;
};

}  // namespace

std::string write_products(const std::string& folder) {
  const ReportContext context{fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))),
                              LOCKSTEP_VERSION};
  if (!fs::exists(study_file_in(folder))) return write_report(folder, run_report(folder, context));
  const Study study = study_in(folder);
  write_csv(study, folder, folder + "/results.csv", folder + "/curves.csv");
  return write_report(folder, study_report(study, folder, context));
}

std::unique_ptr<Command> add_report(CLI::App& application) {
  return std::make_unique<ReportCommand>(application);
}

}  // namespace lockstep
