#include "replica/torch_error.h"

#include <c10/util/Exception.h>

#include <string_view>

namespace lockstep {
namespace {

constexpr std::string_view kScript =
    "The following operation failed in the TorchScript interpreter";

// Of a script: "…stack…\nRuntimeError: what is wrong". Where that line starts.
std::size_t line_of_script(const std::string& text) {
  const std::size_t last = text.find_last_not_of('\n');
  const std::size_t named = text.find("\nRuntimeError: ");
  const std::size_t before = named != std::string::npos ? named : text.rfind('\n', last);
  return before == std::string::npos ? 0 : before + 1;
}

}  // namespace

std::string sentence_of(const std::exception& error) {
  const auto* const torch = dynamic_cast<const c10::Error*>(&error);
  const std::string text = torch ? torch->what_without_backtrace() : error.what();
  const std::size_t start = text.starts_with(kScript) ? line_of_script(text) : 0;
  return text.substr(start, text.find('\n', start) - start);
}

}  // namespace lockstep
