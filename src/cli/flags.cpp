#include "cli/flags.h"

#include <cctype>
#include <charconv>

#include "core/error.h"

namespace lockstep {

std::vector<std::string> arguments_of(int argc, const char* const* argv) {
  std::vector<std::string> arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool negative = word.size() > 1 && word[0] == '-' && std::isdigit(word[1]);
    if (negative && !arguments.empty() && arguments.back().starts_with('-'))
      arguments.back() += (arguments.back().starts_with("--") ? "=" : "") + word;
    else
      arguments.push_back(word == "-np" ? "-n" : word);
  }
  return arguments;
}

int count_from(const std::string& flag, const std::string& text, int least, int most) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < least || value > most)
    throw UsageError(
        fmt::format("{} must be a whole number from {} to {}, not '{}'", flag, least, most, text));
  return value;
}

std::string no_flag(const std::string& path) { return path.starts_with('-') ? "./" + path : path; }

std::vector<std::string> list_from(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    parts.push_back(text.substr(at, comma - at));
    at = comma + 1;
  }
  return parts;
}

}  // namespace lockstep
