#include "core/options.h"

#include <algorithm>

#include "core/error.h"
#include "core/names.h"
#include "core/units.h"

namespace lockstep {
namespace {

// A '=' that comes after a ':' belongs to a nested value: in "tree:levels=2" no key of ours ends
// there.
std::size_t end_of_key(std::string_view part) {
  const std::size_t equals = part.find('=');
  return equals < part.find(':') ? equals : std::string_view::npos;
}

}  // namespace

std::vector<std::string_view> cut_at_commas(std::string_view text) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t comma = text.find(',');
    parts.push_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

std::vector<std::string_view> keys_in(std::string_view defaults) {
  std::vector<std::string_view> keys;
  for (std::string_view part : cut_at_commas(defaults))
    if (const std::size_t equals = end_of_key(part); equals != std::string_view::npos)
      keys.push_back(part.substr(0, equals));
  return keys;
}

std::string_view Options::name_in(std::string_view text) { return text.substr(0, text.find(':')); }

Options::Options(std::string_view text, std::span<const std::string_view> keys)
    : name_(name_in(text)), keys_(keys.begin(), keys.end()) {
  if (name_.empty())
    throw UsageError(fmt::format("'{}' has no name: write NAME or NAME:key=value,…", text));
  if (name_.size() == text.size()) return;
  std::string* last = nullptr;
  for (std::string_view part : cut_at_commas(text.substr(name_.size() + 1))) {
    const std::size_t equals = end_of_key(part);
    if (equals == std::string_view::npos && last) {
      last->append(",").append(part);
      continue;
    }
    if (equals == std::string_view::npos || equals == 0)
      throw UsageError(fmt::format("'{}' in '{}': write key=value, with a key of {}", part, text,
                                   fmt::join(keys, ", ")));
    const std::string_view key = part.substr(0, equals);
    index_named(fmt::format("key of '{}'", name_), key, keys);
    const auto [place, added] = values_.try_emplace(std::string(key), part.substr(equals + 1));
    if (!added) throw UsageError(fmt::format("'{}' is given twice in '{}'", key, text));
    last = &place->second;
  }
}

Options Options::with_defaults(std::string_view text, std::string_view defaults) {
  const auto keys = keys_in(defaults);
  Options options(text, keys);
  if (!keys.empty())
    options.values_.merge(Options(fmt::format("{}:{}", options.name_, defaults), keys).values_);
  return options;
}

bool Options::takes(std::string_view key) const {
  return std::find(keys_.begin(), keys_.end(), key) != keys_.end();
}

bool Options::has(std::string_view key) const {
  if (!takes(key))
    throw InternalError(fmt::format("'{}' asks for key '{}', which it does not list", name_, key));
  return values_.contains(key);
}

template <class T>
T Options::get(std::string_view key, std::optional<T> otherwise,
               T (*parse)(std::string_view)) const {
  if (!has(key)) {
    if (otherwise) return *otherwise;
    throw UsageError(fmt::format("'{0}' needs {1}: write {0}:{1}=…", name_, key));
  }
  try {
    return parse(values_.find(key)->second);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("{} of '{}': {}", key, name_, error.what()));
  }
}

std::string Options::text(std::string_view key, std::optional<std::string> otherwise) const {
  return get<std::string>(key, std::move(otherwise),
                          [](std::string_view value) { return std::string(value); });
}
std::int64_t Options::integer(std::string_view key, std::optional<std::int64_t> otherwise) const {
  return get(key, otherwise, parse_integer);
}
double Options::number(std::string_view key, std::optional<double> otherwise) const {
  return get(key, otherwise, parse_number);
}
bool Options::flag(std::string_view key, std::optional<bool> otherwise) const {
  return get(key, otherwise, parse_flag);
}
std::uint64_t Options::size(std::string_view key, std::optional<std::uint64_t> otherwise) const {
  return get(key, otherwise, parse_size);
}
double Options::seconds(std::string_view key, std::optional<double> otherwise) const {
  return get(key, otherwise, parse_duration);
}
double Options::bytes_per_second(std::string_view key, std::optional<double> otherwise) const {
  return get(key, otherwise, parse_rate);
}

std::size_t Options::choice(std::string_view key, std::span<const std::string_view> names) const {
  return index_named(fmt::format("{} of '{}'", key, name_), text(key), names);
}

std::vector<std::string> Options::list(std::string_view key) const {
  if (!has(key)) return {};
  const auto parts = cut_at_commas(values_.find(key)->second);
  return {parts.begin(), parts.end()};
}

}  // namespace lockstep
