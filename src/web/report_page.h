// The report: one HTML file that needs no network. A template made of web/, bundled when Lockstep
// is built, carries script and style; the data is put into it here.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

// The page without data: a complete HTML document with `/*DATA*/` once, where the data goes.
std::string_view report_template();

// The page with `data_json`, one JSON document as docs/report-data.md describes it. Any JSON will
// do, whatever its strings say: it is escaped so that none of it can end the element it stands in.
std::string render_report(const std::string& data_json);

}  // namespace lockstep
