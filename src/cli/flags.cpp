#include "cli/flags.h"

#include <cctype>
#include <cstdlib>
#include <map>

#include "cli/commands.h"
#include "cluster/host.h"
#include "core/error.h"
#include "core/names.h"

namespace lockstep {
namespace {

// A word that no command or flag takes.
[[noreturn]] void throw_unexpected(const std::string& word, const CLI::App& application) {
  const CLI::App* command = &application;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  const bool is_flag = word.starts_with('-');
  std::vector<std::string> names;
  if (is_flag) {
    for (const CLI::Option* option : command->get_options())
      if (!option->get_group().empty())  // else people don't give it
        for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  } else {
    for (const CLI::App* sub : command->get_subcommands([](const CLI::App*) { return true; }))
      if (!sub->get_group().empty()) names.push_back(sub->get_name());
  }
  const std::string of = command == &application ? "" : " of " + command->get_name();
  if (names.empty())
    throw UsageError(
        fmt::format("'{}' is one word too many for {}: leave it out", word, command->get_name()));
  throw_unknown((is_flag ? "flag" : "command") + of, word.substr(0, word.find('=')),
                std::vector<std::string_view>(names.begin(), names.end()));
}

}  // namespace

void throw_usage_error(const CLI::ParseError& error, const CLI::App& application) {
  const std::string said = error.what();
  const std::vector<std::string> extra = application.remaining(true);
  if (!extra.empty()) throw_unexpected(extra.front(), application);
  constexpr std::string_view kNotConverted = "Could not convert: ", kIs = " = ";
  const std::size_t is = said.find(kIs);
  if (said.starts_with(kNotConverted) && is != said.npos)
    throw UsageError(fmt::format("{}: '{}' is not a number such as 2",
                                 said.substr(kNotConverted.size(), is - kNotConverted.size()),
                                 said.substr(is + kIs.size())));
  throw UsageError(said);
}

std::vector<std::string> arguments_of(int argc, const char* const* argv) {
  std::vector<std::string> arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool negative = word.size() > 1 && word[0] == '-' && std::isdigit(word[1]);
    if (negative && !arguments.empty() && arguments.back().starts_with('-'))
      arguments.back() += (arguments.back().starts_with("--") ? "=" : "") + word;
    else
      arguments.push_back(word == "-np" ? "-n" : word);
  }
  return arguments;
}

std::string no_flag(const std::string& path) { return path.starts_with('-') ? "./" + path : path; }

Environment environment_with(const HostFlags& flags) {
  std::map<std::string, std::string> given;
  if (!flags.listen.empty()) given["LOCKSTEP_LISTEN"] = flags.listen;
  if (!flags.key_file.empty()) given["LOCKSTEP_KEY_FILE"] = flags.key_file;
  if (!flags.iface.empty()) given["LOCKSTEP_IFACE"] = flags.iface;
  if (!flags.join.empty()) {
    const Address address = parse_address(flags.join, "--join");
    given["MASTER_ADDR"] = address.host;
    given["MASTER_PORT"] = std::to_string(address.port);
  }
  return [given](const std::string& name) -> std::optional<std::string> {
    if (const auto flag = given.find(name); flag != given.end()) return flag->second;
    const char* value = std::getenv(name.c_str());
    return value ? std::optional<std::string>(value) : std::nullopt;
  };
}

std::string cache_folder() {
  const auto set = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value ? value : "";
  };
  if (const std::string cache = set("XDG_CACHE_HOME"); !cache.empty()) return cache + "/lockstep";
  const std::string home = set("HOME");
  return (home.empty() ? "/tmp" : home) + "/.cache/lockstep";
}

}  // namespace lockstep
