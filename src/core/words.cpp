#include "core/words.h"

#include <fmt/format.h>

namespace lockstep {

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
