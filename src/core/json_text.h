// JSON as text. What is read may come from anywhere, and what is written may hold any bytes.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace lockstep {

// Does it nest deeper than any file of ours? To copy, compare or print such a value would take more
// stack than there is.
bool nests_too_deep(std::string_view json);

// The value in the text. Where the text is not JSON, or nests too deep: a discarded value, which is
// of no type.
template <class Json = nlohmann::ordered_json>
Json json_in(std::string_view text) {
  if (nests_too_deep(text)) return Json(nlohmann::detail::value_t::discarded);
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

// JSON is UTF-8, and names of files can be of any bytes: those that are not UTF-8 are replaced.
// `indent`: spaces; -1: all on one line.
std::string json_text(const nlohmann::ordered_json&, int indent = -1);

// In a type's own namespace: these members of it are fields of JSON under their own names, in this
// order, both ways. To read a field that is missing or of another type throws what at() and get()
// throw.
#define LOCKSTEP_JSON_FIELDS(Type, ...)                                        \
  template <class Json>                                                        \
  void to_json(Json& nlohmann_json_j, const Type& nlohmann_json_t) {           \
    NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(NLOHMANN_JSON_TO, __VA_ARGS__))   \
  }                                                                            \
  template <class Json>                                                        \
  void from_json(const Json& nlohmann_json_j, Type& nlohmann_json_t) {         \
    NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(NLOHMANN_JSON_FROM, __VA_ARGS__)) \
  }

}  // namespace lockstep
