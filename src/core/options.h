// The one syntax for parameters: NAME:key=value,key=value. A value ends at the next ",key=", so it
// may hold ':' and lists ("slow=rank3:2.0,rank5:3.0", "topology=tree:oversubscription=4"). Errors
// are UsageErrors that name the parameter and say what would be right.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// "a,b" as a and b. Without a comma there is one part, which may be empty.
std::vector<std::string_view> cut_at_commas(std::string_view text);
// The keys of "lr=0.01,mean=0.5,0.4": lr and mean.
std::vector<std::string_view> keys_in(std::string_view defaults);

class Options {
 public:
  // The part before the ':', to look up whose keys are valid.
  static std::string_view name_in(std::string_view text);
  // An unknown key is an error that lists `keys` and the nearest match.
  Options(std::string_view text, std::span<const std::string_view> keys);
  // The keys and what they are if not given, in one: "lr=0.01,momentum=0". has() is true of all.
  static Options with_defaults(std::string_view text, std::string_view defaults);

  const std::string& name() const { return name_; }
  bool takes(std::string_view key) const;  // is it one of the keys?
  bool has(std::string_view key) const;

  // The value of `key`, else `otherwise`; without either, an error asks for it. REQUIRES: one of
  // `keys`.
  std::string text(std::string_view key, std::optional<std::string> otherwise = {}) const;
  std::int64_t integer(std::string_view key, std::optional<std::int64_t> otherwise = {}) const;
  double number(std::string_view key, std::optional<double> otherwise = {}) const;
  bool flag(std::string_view key, std::optional<bool> otherwise = {}) const;
  std::uint64_t size(std::string_view key, std::optional<std::uint64_t> otherwise = {}) const;
  double seconds(std::string_view key, std::optional<double> otherwise = {}) const;
  double bytes_per_second(std::string_view key, std::optional<double> otherwise = {}) const;
  // Which of `names` the value is; an error lists them.
  std::size_t choice(std::string_view key, std::span<const std::string_view> names) const;
  // The value cut at its commas; none: empty.
  std::vector<std::string> list(std::string_view key) const;

 private:
  template <class T>
  T get(std::string_view key, std::optional<T> otherwise, T (*parse)(std::string_view)) const;

  std::string name_;
  std::vector<std::string> keys_;
  std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace lockstep
