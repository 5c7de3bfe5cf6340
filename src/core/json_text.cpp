#include "core/json_text.h"

namespace lockstep {

bool nests_too_deep(std::string_view json) {
  constexpr int kDeepest = 64;
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (quoted) {
      i += c == '\\';
      quoted = c != '"';
      continue;
    }
    quoted = c == '"';
    depth += (c == '[' || c == '{') - (c == ']' || c == '}');
    if (depth > kDeepest) return true;
  }
  return false;
}

std::string json_text(const nlohmann::ordered_json& json, int indent) {
  return json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace lockstep
