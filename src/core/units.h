// Numbers as people write and read them. The parse_ functions throw a UsageError that gives a right
// example.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

double parse_number(std::string_view);         // 0.5, 1e-3
std::int64_t parse_integer(std::string_view);  // -3
// The same within bounds: "-n must be a whole number from 1 to 4096, not '0'".
int parse_integer(std::string_view what, std::string_view text, int least, int most);
bool parse_flag(std::string_view);           // on/off, true/false, yes/no, 1/0
std::uint64_t parse_size(std::string_view);  // bytes: 64, 4K = 4KiB = 4096, 4KB = 4000, 1.5M, 2GiB
double parse_duration(std::string_view);  // seconds: 100ms, 50us, 20ns, 2s, 1.5min; bare: seconds
double parse_rate(std::string_view);      // bytes a second: 10Gbps, 100Mbit, 8kbps

// The number that `text` begins with, taken off it. Nothing, and `text` as it was, if there is none
// or it is not finite.
template <class Number>
std::optional<Number> take_number(std::string_view& text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return {};
  if constexpr (std::is_floating_point_v<Number>)
    if (!std::isfinite(value)) return {};
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}
// The number that all of `text` is; nothing if it is anything else.
template <class Number>
std::optional<Number> number_in(std::string_view text) {
  const std::optional<Number> value = take_number<Number>(text);
  return text.empty() ? value : std::nullopt;
}

// Figures as people read them.
std::string time_in_words(double seconds);  // "3.1 us", "1.2 ms", "12.3 s", "3 min 20 s"
std::string bytes_in_words(double bytes);   // "1.2 MB"

}  // namespace lockstep
