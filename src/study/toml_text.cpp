#include "study/toml_text.h"

#include <algorithm>
#include <string_view>

#include "core/error.h"

namespace lockstep::study {
namespace {

constexpr int kMostDots = 16;  // of a key

// The last character of the string that starts at `at`. One that does not end is toml++'s to
// refuse.
std::size_t end_of_string(std::string_view text, std::size_t at) {
  const char quote = text[at];
  const std::string three(3, quote);
  const bool lines = text.substr(at).starts_with(three);
  for (std::size_t i = at + (lines ? 3 : 1); i < text.size(); ++i) {
    if (quote == '"' && text[i] == '\\')
      ++i;
    else if (lines && text.substr(i).starts_with(three))
      return i + 2;
    else if (!lines && (text[i] == quote || text[i] == '\n'))
      return i;
  }
  return text.size();
}

// toml++ bounds how deep values nest, but each dot of a key makes a table in a table as well. Where
// is the first key with too many?
std::size_t deep_key(std::string_view text) {
  int dots = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '#') i = std::min(text.find('\n', i), text.size());
    if (c == '"' || c == '\'') i = end_of_string(text, i);
    if (c == '.' && ++dots > kMostDots) return i;
    if (std::string_view("\n#=[]{},").find(c) != std::string_view::npos) dots = 0;
  }
  return std::string_view::npos;
}

}  // namespace

toml::table toml_in(const std::string& text, const std::string& path) try {
  if (const std::size_t at = deep_key(text); at != std::string_view::npos)
    throw UsageError(fmt::format(
        "{}:{}: a key has more than {} dots, and no setting lies so deep", path,
        1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'),
        kMostDots));
  return toml::parse(text, path);
} catch (const toml::parse_error& e) {
  throw UsageError(fmt::format("{}:{}: {}", path, e.source().begin.line, e.description()));
}

}  // namespace lockstep::study
