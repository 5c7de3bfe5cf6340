#include "cli/report_command.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/study_products.h"
#include "core/error.h"

namespace lockstep {

ReportCommand::ReportCommand(CLI::App& application)
    : command_(application.add_subcommand("report", "Render report.html again from a folder")) {
  command_->add_option("DIR", folder_, "A study's folder, or a run's");
  command_->add_flag("--json", json_, "The outcome as JSON on stdout");
  command_->footer(
      "\nExamples:\n  lockstep report studies-out/averaging-quick\n  lockstep report runs/RUN");
}

int ReportCommand::run() const {
  if (folder_.empty()) throw UsageError("a report of what? name a study's folder, or a run's");
  const std::string report = write_products(folder_);
  if (json_)
    fmt::print("{}\n", nlohmann::ordered_json{{"schema_version", 1}, {"report", report}}.dump());
  else
    fmt::print("report: {}\n", report);
  return 0;
}

}  // namespace lockstep
