#include "core/units.h"

#include <fmt/format.h>

#include <span>

#include "core/error.h"

namespace lockstep {
namespace {

struct Unit {
  std::string_view suffix;
  double factor;
};

constexpr double kKi = 1024;
// Bare letters are powers of two, as in nccl-tests and most tools that take sizes.
constexpr Unit kSizes[] = {
    {"", 1},         {"B", 1},          {"K", kKi},  {"KiB", kKi},         {"KB", 1e3},
    {"M", kKi* kKi}, {"MiB", kKi* kKi}, {"MB", 1e6}, {"G", kKi* kKi* kKi}, {"GiB", kKi* kKi* kKi},
    {"GB", 1e9}};
constexpr Unit kDurations[] = {{"", 1},      {"s", 1},     {"ms", 1e-3},
                               {"us", 1e-6}, {"ns", 1e-9}, {"min", 60}};
constexpr Unit kRates[] = {{"bps", 1 / 8.},   {"kbps", 1e3 / 8}, {"Mbps", 1e6 / 8},
                           {"Gbps", 1e9 / 8}, {"bit", 1 / 8.},   {"kbit", 1e3 / 8},
                           {"Mbit", 1e6 / 8}, {"Gbit", 1e9 / 8}};

[[noreturn]] void fail(std::string_view what, std::string_view text, std::string_view right) {
  throw UsageError(fmt::format("'{}' is not {}: write {}", text, what, right));
}

double with_unit(std::string_view text, std::span<const Unit> units, std::string_view what,
                 std::string_view right) {
  std::string_view suffix = text;
  const auto value = take_number<double>(suffix);
  if (!value || *value < 0) fail(what, text, right);
  for (const Unit& unit : units)
    if (unit.suffix == suffix) return *value * unit.factor;
  fail(what, text, right);
}

}  // namespace

double parse_number(std::string_view text) {
  const auto value = number_in<double>(text);
  if (!value) fail("a number", text, "one such as 0.5 or 1e-3");
  return *value;
}

std::int64_t parse_integer(std::string_view text) {
  const auto value = number_in<std::int64_t>(text);
  if (!value) fail("a whole number", text, "one such as 3");
  return *value;
}

int parse_integer(std::string_view what, std::string_view text, int least, int most) {
  const auto value = number_in<int>(text);
  if (!value || *value < least || *value > most)
    throw UsageError(
        fmt::format("{} must be a whole number from {} to {}, not '{}'", what, least, most, text));
  return *value;
}

bool parse_flag(std::string_view text) {
  if (text == "on" || text == "true" || text == "yes" || text == "1") return true;
  if (text == "off" || text == "false" || text == "no" || text == "0") return false;
  fail("a switch", text, "on or off");
}

std::uint64_t parse_size(std::string_view text) {
  constexpr std::string_view kRight =
      "a number of bytes with K, M or G (powers of 1024), such as 64K, 1.5MiB or 1GB";
  const double bytes = std::round(with_unit(text, kSizes, "a size", kRight));
  if (bytes >= 0x1p63) fail("a size", text, "less than 8 EiB");
  return static_cast<std::uint64_t>(bytes);
}

double parse_duration(std::string_view text) {
  return with_unit(text, kDurations, "a duration",
                   "a number with ns, us, ms, s or min, such as 50us or 1.5s");
}

double parse_rate(std::string_view text) {
  return with_unit(text, kRates, "a rate",
                   "a number with kbps, Mbps or Gbps (or kbit, Mbit, Gbit), such as 10Gbps");
}

std::string time_in_words(double seconds) {
  if (seconds > 0 && seconds < 1e-4) return fmt::format("{:.3g} us", seconds * 1e6);
  if (seconds > 0 && seconds < 0.1) return fmt::format("{:.3g} ms", seconds * 1e3);
  if (seconds < 100) return fmt::format("{:.3g} s", seconds);
  const auto s = static_cast<long>(seconds);
  return s < 3600 ? fmt::format("{} min {} s", s / 60, s % 60)
                  : fmt::format("{} h {} min", s / 3600, s / 60 % 60);
}

std::string bytes_in_words(double bytes) {
  const char* const units[] = {"B", "KB", "MB", "GB", "TB"};
  int unit = 0;
  for (; bytes >= 1000 && unit < 4; ++unit) bytes /= 1000;
  return fmt::format("{:.{}f} {}", bytes, unit == 0 ? 0 : 1, units[unit]);
}

}  // namespace lockstep
