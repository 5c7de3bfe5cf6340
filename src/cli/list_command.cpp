#include "cli/list_command.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "collectives/all_reduce.h"
#include "core/error.h"
#include "core/names.h"

namespace lockstep {

ListCommand::ListCommand(CLI::App& application)
    : command_(application.add_subcommand("list", "Names that flags take, one line each")) {
  command_->add_option("what", what_, "collectives")->required();
  command_->add_flag("--json", json_, "JSON lines");
  command_->footer("\nExamples:\n  lockstep list collectives\n  lockstep list collectives --json");
}

int ListCommand::run() const {
  constexpr std::string_view kLists[] = {"collectives"};
  if (std::ranges::find(kLists, what_) == std::end(kLists)) throw_unknown("list", what_, kLists);
  for (const AllReduceRow& row : all_reduces()) {
    if (json_)
      fmt::print(
          "{}\n",
          nlohmann::ordered_json{{"name", row.name}, {"description", row.description}}.dump());
    else
      fmt::print("{:<18} {}\n", row.name, row.description);
  }
  return 0;
}

}  // namespace lockstep
