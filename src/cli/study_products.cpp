#include "cli/study_products.h"

#include <fmt/chrono.h>

#include <ctime>
#include <filesystem>

#include "core/json_text.h"
#include "core/whole_file.h"
#include "study/figures.h"
#include "study/report_data.h"
#include "web/report_page.h"

namespace lockstep {
namespace {

using namespace study;
namespace fs = std::filesystem;

ReportContext context() {
  const std::time_t now = std::time(nullptr);
  return {fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(now)), LOCKSTEP_VERSION};
}

// The page with its data in it.
std::string write_report(const std::string& folder, const std::string& data) {
  const std::string path = folder + "/report.html";
  write_whole(path, render_report(data));
  return path;
}

}  // namespace

std::string write_products(const std::string& folder) {
  const std::string path = study_file_in(folder);
  if (!std::filesystem::exists(path))
    return write_report(folder, json_text(run_report(folder, context())));
  const Study study = study_from(json_in(read_whole(path)), path);
  const Records records = read_runs(study, folder);
  write_whole(folder + "/results.csv", results_csv(study, records));
  if (study.command == "train") write_whole(folder + "/curves.csv", curves_csv(study, records));
  return write_report(folder, json_text(study_report(study, folder, context())));
}

void write_csv(const std::string& folder, const std::string& path) {
  const std::string file = study_file_in(folder);
  const Study study = study_from(json_in(read_whole(file)), file);
  const Records records = read_runs(study, folder);
  const fs::path results(path);
  const std::string curves = results.stem().string() + "-curves.csv";
  write_whole(path, results_csv(study, records, curves));
  if (study.command == "train")
    write_whole((results.parent_path() / curves).string(), curves_csv(study, records));
}

std::optional<double> figure_of(const Study& study, const std::string& folder,
                                const std::string& run, std::string_view name) {
  const RunRecord record = read_run(folder_of(folder, study.run(run)));
  return record.done() ? figure(name).of(record) : std::nullopt;
}

}  // namespace lockstep
