// lockstep list collectives
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// What can be listed: "strategies", "models", …
std::span<const std::string_view> lists();
// The names in one of those. None if there is no such list.
std::vector<std::string> names_in(const std::string& list);

class ListCommand {
 public:
  // The application outlives this.
  explicit ListCommand(CLI::App& application);
  bool chosen() const { return command_->parsed(); }
  int run() const;

 private:
  std::string what_;
  bool json_ = false;
  CLI::App* command_;
};

}  // namespace lockstep
