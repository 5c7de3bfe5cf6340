// The subcommands of `lockstep`, each in a file of its own.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

class Command {
 public:
  virtual ~Command() = default;
  Command(const Command&) = delete;  // its flags are written where it lies

  // Is it the one that the command line names? Call after the parse.
  bool chosen() const { return command_->parsed(); }
  // Returns the exit status; throws what main.cpp turns into a sentence and a status.
  virtual int run() const = 0;

 protected:
  explicit Command(CLI::App* command) : command_(command) {}

  CLI::App* const command_;  // of the application, which outlives this
};

// Each adds a command and its flags to the application, which outlives it.
std::unique_ptr<Command> add_bench(CLI::App&);
std::unique_ptr<Command> add_list(CLI::App&);
std::unique_ptr<Command> add_data(CLI::App&);
std::unique_ptr<Command> add_train(CLI::App&);
std::unique_ptr<Command> add_study(CLI::App&);
std::unique_ptr<Command> add_report(CLI::App&);
// One rank of `bench` or `train`: started by those, not by people, and not in --help.
std::unique_ptr<Command> add_bench_worker(CLI::App&);
std::unique_ptr<Command> add_train_worker(CLI::App&);
// Describes the application as it is when the command runs, so commands may be added later.
std::unique_ptr<Command> add_completion(CLI::App&);

// What `list` can list: "strategies", "models", …
std::span<const std::string_view> lists();
// The names in one of those. None if there is no such list.
std::vector<std::string> names_in(const std::string& list);

}  // namespace lockstep
