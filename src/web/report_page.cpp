#include "web/report_page.h"

#include <algorithm>

namespace lockstep {
namespace {

constexpr std::string_view kPlace = "/*DATA*/";

// An array, whose size is known without counting: the template is longer than what a compiler will
// walk through for a string_view.
const char kTemplate[] =
#include "web/report_template.inc"
    ;

}  // namespace

std::string_view report_template() { return {kTemplate, sizeof(kTemplate) - 1}; }

std::string render_report(const std::string& data_json) {
  const std::string_view around = report_template();
  const std::size_t place = around.find(kPlace);  // there once: build.mjs sees to it
  // In JSON a "<" can only stand inside a string, where an escape means the same; HTML then sees
  // neither "</script" nor "<!--".
  constexpr std::string_view escaped = "\\u003c";
  const auto angles = static_cast<std::size_t>(std::ranges::count(data_json, '<'));
  std::string page;
  page.reserve(around.size() + data_json.size() + angles * escaped.size());
  page += around.substr(0, place);
  for (const char c : data_json)
    if (c == '<')
      page += escaped;
    else
      page += c;
  page += around.substr(place + kPlace.size());
  return page;
}

}  // namespace lockstep
