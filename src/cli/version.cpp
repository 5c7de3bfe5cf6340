#include "cli/version.h"

#include <fmt/format.h>
#include <lockstep_commit.h>
#include <lockstep_libraries.h>

#include "core/json_text.h"

namespace lockstep {

void print_version(bool json) {
  if (!json) {
    fmt::print("lockstep {} (commit {})\n", LOCKSTEP_VERSION, program_commit());
    for (const auto& [name, version] : kLibraries) fmt::print("{} {}\n", name, version);
    return;
  }
  nlohmann::ordered_json libraries;
  for (const auto& [name, version] : kLibraries) libraries[name] = version;
  fmt::print("{}\n", json_text({{"schema_version", 1},
                                {"lockstep", LOCKSTEP_VERSION},
                                {"commit", program_commit()},
                                {"libraries", libraries}}));
}

nlohmann::json program_facts() {
  nlohmann::json facts{{"lockstep", LOCKSTEP_VERSION}, {"commit", program_commit()}};
  for (const auto& [name, version] : kLibraries)
    if (std::string_view(name) == "LibTorch") facts["libtorch"] = version;
  return facts;
}

std::string program_commit() { return LOCKSTEP_COMMIT; }
std::string program_source() { return LOCKSTEP_SOURCE; }

}  // namespace lockstep
