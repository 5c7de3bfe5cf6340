#include "cli/flags.h"

#include <cctype>
#include <cstdlib>
#include <map>

#include "cluster/host.h"

namespace lockstep {

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
