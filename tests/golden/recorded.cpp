#include "recorded.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>

#include "core/error.h"

namespace lockstep::golden {
namespace {

constexpr std::string_view kBetween = " | ";
constexpr std::size_t kMostPrinted = 30;

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0;;) {
    const std::size_t end = text.find(kBetween, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string::npos) return parts;
    begin = end + kBetween.size();
  }
}

const Line* line_named(const std::vector<Line>& lines, const std::string& name) {
  const auto found = std::ranges::find(lines, name, &Line::name);
  return found == lines.end() ? nullptr : &*found;
}

bool contains(const std::vector<std::string>& list, const std::string& text) {
  return std::ranges::find(list, text) != list.end();
}

std::string path_of(const std::string& file) { return std::string(GOLDEN_FOLDER) + "/" + file; }

std::string shown(const std::string* value) { return value ? "`" + *value + "`" : "nothing"; }

// Of both, in the order of the recorded ones.
std::vector<std::string> field_names(const Line& a, const Line& b) {
  std::vector<std::string> names;
  for (const Line* line : {&a, &b})
    for (const Field& field : line->fields)
      if (std::ranges::find(names, field.name) == names.end()) names.push_back(field.name);
  return names;
}

}  // namespace

std::string Hash::text() const { return fmt::format("{:016x}", value_); }
std::string Hash::short_text() const {
  return fmt::format("{:08x}", static_cast<std::uint32_t>(value_ ^ (value_ >> 32)));
}

std::string exact(double number) { return fmt::format("{:.17g}", number); }

void Line::add(std::string field, std::string value) {
  fields.push_back({std::move(field), std::move(value)});
}

const std::string* Line::find(std::string_view field) const {
  const auto found = std::ranges::find(fields, field, &Field::name);
  return found == fields.end() ? nullptr : &found->value;
}

std::string to_text(const Line& line) {
  std::string text = line.name;
  for (const Field& field : line.fields)
    text += fmt::format("{}{} {}", kBetween, field.name, field.value);
  return text;
}

Line line_from(const std::string& text) {
  const std::vector<std::string> parts = parts_of(text);
  Line line{parts[0], {}};
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const std::size_t space = parts[i].find(' ');
    if (space == std::string::npos)
      throw UsageError(
          fmt::format("'{}' is no recorded field: a name, a space and a value would be", parts[i]));
    line.add(parts[i].substr(0, space), parts[i].substr(space + 1));
  }
  return line;
}

std::vector<Difference> differences(const std::vector<Line>& recorded,
                                    const std::vector<Line>& seen, const Except& except) {
  std::vector<Difference> found;
  for (const Line& now : seen) {
    const Line* before = line_named(recorded, now.name);
    if (!before) {
      found.push_back({"case", fmt::format("{}: no line is recorded for this case", now.name)});
      continue;
    }
    for (const std::string& field : field_names(*before, now)) {
      const std::string *expected = before->find(field), *value = now.find(field);
      const bool same = expected && value && *expected == *value;
      if (same || contains(except.fields, field)) continue;
      found.push_back({field, fmt::format("{}: {} was {}, is {}", now.name, field, shown(expected),
                                          shown(value))});
    }
  }
  for (const Line& before : recorded)
    if (!line_named(seen, before.name) && !contains(except.cases, before.name))
      found.push_back(
          {"case", fmt::format("{}: a line is recorded, and there is no such case", before.name)});
  return found;
}

std::vector<Line> read_recorded(const std::string& path) {
  std::vector<Line> lines;
  std::ifstream in(path);
  for (std::string text; std::getline(in, text);)
    if (!text.empty() && text[0] != '#') lines.push_back(line_from(text));
  return lines;
}

::testing::AssertionResult compare_with(const std::string& file, const std::vector<Line>& seen,
                                        const Except& except) {
  const std::vector<Difference> all = differences(read_recorded(path_of(file)), seen, except);
  if (all.empty()) return ::testing::AssertionSuccess();
  std::string text = "\n", by_field;
  for (std::size_t i = 0; i < std::min(all.size(), kMostPrinted); ++i)
    text += all[i].sentence + "\n";
  if (all.size() > kMostPrinted) text += fmt::format("and {} more\n", all.size() - kMostPrinted);
  std::map<std::string, int> counts;
  for (const Difference& difference : all) ++counts[difference.field];
  for (const auto& [field, count] : counts)
    by_field += fmt::format("{}{} {}", by_field.empty() ? "" : ", ", field, count);
  return ::testing::AssertionFailure()
         << text
         << fmt::format(
                "{} differences from tests/golden/{}, by field: {}. If each is meant, record "
                "them by `make golden` and say in the commit why they are right.",
                all.size(), file, by_field);
}

::testing::AssertionResult compare_or_write(const std::string& file,
                                            const std::vector<Line>& seen) {
  const char* asked = std::getenv("LOCKSTEP_GOLDEN");
  if (!asked || std::string_view(asked) != "write") return compare_with(file, seen);
  for (const Line& line : seen)
    if (line.find("failed"))
      return ::testing::AssertionFailure() << fmt::format("{}: it failed, so {} is not written: {}",
                                                          line.name, file, *line.find("failed"));
  std::ofstream out(path_of(file));
  out << "# What every case came to, to the bit. `make golden` writes it; see recorded.h.\n";
  for (const Line& line : seen) out << to_text(line) << '\n';
  if (out.flush()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << fmt::format("{} can't be written", path_of(file));
}

}  // namespace lockstep::golden
