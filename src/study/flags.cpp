#include "study/flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <functional>

namespace lockstep::study {
namespace {

// Calls `replace` with the word in each {word}, and puts what it returns in its place.
std::string each_placeholder(const std::string& text,
                             const std::function<std::string(const std::string&)>& replace) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t open = text.find('{', at);
    const std::size_t close = text.find('}', std::min(open, text.size()));
    if (close == std::string::npos) return out + text.substr(at);
    out += text.substr(at, open - at) + replace(text.substr(open + 1, close - open - 1));
    at = close + 1;
  }
  return out;
}

bool plain(const std::string& word) {
  constexpr std::string_view kHarmless = "-_=+:,./@%";
  return !word.empty() && std::ranges::all_of(word, [&](unsigned char c) {
    return std::isalnum(c) || kHarmless.find(static_cast<char>(c)) != std::string_view::npos;
  });
}

}  // namespace

std::string Given::text() const {
  if (!on) return "off";
  return values.empty() ? "on" : fmt::format("{}", fmt::join(values, ", "));
}

Flags over(Flags base, const Flags& more) {
  for (const auto& [name, given] : more) base[name] = given;
  std::erase_if(base, [](const auto& flag) { return !flag.second.on; });
  return base;
}

std::vector<std::string> words_of(const Flags& flags) {
  std::vector<std::string> words;
  for (const auto& [name, given] : flags) {
    const std::string flag = (name.size() == 1 ? "-" : "--") + name;
    if (given.values.empty()) words.push_back(flag);
    for (const std::string& value : given.values) {
      words.push_back(flag);
      words.push_back(value);
    }
  }
  return words;
}

std::string shell_line(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) {
    if (!line.empty()) line += ' ';
    if (plain(word)) {
      line += word;
      continue;
    }
    line += '\'';
    for (const char c : word) line += c == '\'' ? std::string("'\\''") : std::string(1, c);
    line += '\'';
  }
  return line;
}

std::vector<std::string> placeholders_in(const Flags& flags) {
  std::vector<std::string> found;
  for (const auto& [name, given] : flags)
    for (const std::string& value : given.values)
      each_placeholder(value, [&](const std::string& word) {
        found.push_back(word);
        return "";
      });
  return found;
}

Flags filled(const Flags& flags, const std::map<std::string, std::string>& values) {
  Flags out = flags;
  for (auto& [name, given] : out)
    for (std::string& value : given.values)
      value = each_placeholder(value, [&](const std::string& word) {
        const auto found = values.find(word);
        return found == values.end() ? "{" + word + "}" : found->second;
      });
  return out;
}

nlohmann::ordered_json texts_of(const Flags& flags) {
  nlohmann::ordered_json texts = nlohmann::ordered_json::object();
  for (const auto& [name, given] : flags) texts[name] = given.text();
  return texts;
}

}  // namespace lockstep::study
