// The report's data: one JSON document with everything the page shows, statistics included. The
// page only draws. docs/formats.md lists its fields.
#pragma once

#include "study/results.h"

namespace lockstep::study {

// What the data can't tell of itself.
struct ReportContext {
  std::string made_at;  // 2026-11-16T03:00:00Z
  std::string version;
};

// Of a study, from its folder.
nlohmann::ordered_json study_report(const Study&, const std::string& folder, const ReportContext&);
// Of one run of `lockstep train`, from its folder. UsageError if there is none.
nlohmann::ordered_json run_report(const std::string& folder, const ReportContext&);

}  // namespace lockstep::study
