// JSON as text. What is read may come from anywhere, and what is written may hold any bytes.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace lockstep {

// Deeper than anything of ours: to copy, compare or print it would take more stack than there is.
bool nests_too_deep(std::string_view json);

// A discarded value, which is of no type: the text is not JSON, or it nests too deep.
template <class Json = nlohmann::ordered_json>
Json json_in(std::string_view text) {
  if (nests_too_deep(text)) return Json(nlohmann::detail::value_t::discarded);
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

// Names of files can be of any bytes, and JSON is UTF-8: what is not is replaced. `indent`: spaces;
// -1: all on one line.
std::string json_text(const nlohmann::ordered_json&, int indent = -1);

}  // namespace lockstep
