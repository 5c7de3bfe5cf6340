#include "measure/interface_probe.h"

#include <array>

namespace lockstep {

std::optional<InterfaceFigures> InterfaceProbe::read() {
  std::string_view text = file_.read();
  const std::size_t at = text.find(find_);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + find_.size());
  std::array<std::uint64_t, 10> column{};  // bytes packets …6 more received, bytes packets … sent
  for (std::uint64_t& value : column) {
    const auto number = take_number(text);
    if (!number) return {};
    value = *number;
  }
  return InterfaceFigures{column[8], column[0], column[9], column[1]};
}

}  // namespace lockstep
