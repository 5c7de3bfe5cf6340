// What a study gives a command: flags by their names, as a map, so that the order in which a file
// says them makes no difference.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace lockstep::study {

// What one flag is given.
struct Given {
  std::vector<std::string> values;  // none: a switch; several: the flag is given several times
  bool on = true;                   // false takes the flag away

  // For people: "3", "a, b", "on", "off".
  std::string text() const;
  auto operator<=>(const Given&) const = default;
};

// By long name without dashes ("workers"), or by letter where there is no long name ("b").
using Flags = std::map<std::string, Given>;

// Both, `more` winning; flags that are off are left out.
Flags over(Flags base, const Flags& more);
// As on a command line: {"--workers", "3"}.
std::vector<std::string> words_of(const Flags&);
// To be pasted into a shell: words with anything unusual in them are quoted.
std::string shell_line(const std::vector<std::string>& words);

// The words that stand in braces in the values: {"rate"} for "sim:bandwidth={rate}".
std::vector<std::string> placeholders_in(const Flags&);
// With each placeholder replaced; those not in `values` stay.
Flags filled(const Flags&, const std::map<std::string, std::string>& values);

// As JSON: its values.
template <class Json>
void to_json(Json& json, const Given& given) {
  json = given.values;
}
template <class Json>
void from_json(const Json& json, Given& given) {
  json.get_to(given.values);
}
// For people: name -> text().
nlohmann::ordered_json texts_of(const Flags&);

}  // namespace lockstep::study
