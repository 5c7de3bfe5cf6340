// lockstep completion bash: prints a script that lets a shell complete commands, flags and the
// names that flags take. All of it comes from the application's own description and from the lists
// of `lockstep list`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>

#include "cli/commands.h"
#include "core/error.h"
#include "core/names.h"
#include "data/published.h"

namespace lockstep {
namespace {

using Words = std::vector<std::string>;

constexpr std::string_view kShells[] = {"bash", "zsh", "fish"};

// A command or one of its flags, as all three scripts need it.
struct Flag {
  Words names;
  std::string text;
  bool takes_value = false;
  Words values;  // known ones; none: whatever the user knows, perhaps a file
};
struct CommandText {
  std::string path;  // "", "train", "data fetch"
  std::string text;
  Words commands;  // below it
  Words values;    // that may follow it
  std::vector<Flag> flags;
};

// By flag, or by command for what follows one.
Words values_of(const std::string& name) {
  static const std::map<std::string, std::string> kLists = {{"--strategy", "strategies"},
                                                            {"--collective", "collectives"},
                                                            {"--model", "models"},
                                                            {"--data", "datasets"},
                                                            {"--split", "splits"},
                                                            {"--optimizer", "optimizers"},
                                                            {"--lr-schedule", "schedules"},
                                                            {"--cluster", "clusters"},
                                                            {"--collectives", "collectives"},
                                                            {"--compress", "compressors"}};
  if (const auto list = kLists.find(name); list != kLists.end()) return names_in(list->second);
  if (name == "--overlap") return {"none", "wfbp", "merged"};
  if (name == "list") return {lists().begin(), lists().end()};
  if (name == "completion") return {std::begin(kShells), std::end(kShells)};
  if (name == "data make") return {"images"};
  Words sets;
  if (name == "data fetch")
    for (const PublishedSet& set : published_sets()) sets.emplace_back(set.name);
  return sets;
}

Flag flag_from(const CLI::Option& option) {
  Flag flag;
  for (const std::string& name : option.get_lnames()) flag.names.push_back("--" + name);
  if (!flag.names.empty()) flag.values = values_of(flag.names[0]);
  for (const std::string& name : option.get_snames()) flag.names.push_back("-" + name);
  flag.text = option.get_description();
  flag.takes_value = option.get_items_expected_max() > 0;
  return flag;
}

// This command and all below it that --help shows.
void describe(const CLI::App& application, const std::string& path, std::vector<CommandText>& all) {
  CommandText command{path, application.get_description(), {}, values_of(path), {}};
  const auto shown = [](const auto* part) { return !part->get_group().empty(); };
  for (const CLI::Option* option : application.get_options(shown))
    if (!option->get_positional()) command.flags.push_back(flag_from(*option));
  const auto below = application.get_subcommands(shown);
  for (const CLI::App* sub : below) command.commands.push_back(sub->get_name());
  all.push_back(std::move(command));
  for (const CLI::App* sub : below)
    describe(*sub, path.empty() ? sub->get_name() : path + " " + sub->get_name(), all);
}

const CommandText& command_at(const std::vector<CommandText>& all, const std::string& path) {
  return *std::ranges::find(all, path, &CommandText::path);
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (auto at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

// As one word of bash and zsh, and of fish.
std::string quoted(const std::string& text) { return "'" + replaced(text, "'", "'\\''") + "'"; }
std::string fish_quoted(const std::string& text) {
  return "'" + replaced(replaced(text, "\\", "\\\\"), "'", "\\'") + "'";
}

// "' train' ' study' 'data fetch'": the command so far, a space, and the word that leads below it.
Words steps_down(const std::vector<CommandText>& all) {
  Words steps;
  for (const CommandText& command : all)
    for (const std::string& sub : command.commands)
      steps.push_back(quoted(command.path + " " + sub));
  return steps;
}

// "'train -n'|'train --workers'": the command, a space, and the flag.
std::string pattern_of(const CommandText& command, const Flag& flag) {
  Words patterns;
  for (const std::string& name : flag.names) patterns.push_back(quoted(command.path + " " + name));
  return fmt::format("{}", fmt::join(patterns, "|"));
}

// The branches of a `case`, for bash and zsh alike.
std::string branches(const std::vector<CommandText>& all,
                     const std::function<Words(const CommandText&)>& words,
                     const std::string& assignment) {
  std::string text;
  for (const CommandText& command : all)
    if (const Words found = words(command); !found.empty())
      text += fmt::format("      {}) {} ;;\n", quoted(command.path),
                          fmt::format(fmt::runtime(assignment), fmt::join(found, " ")));
  return text;
}

Words flag_names(const CommandText& command) {
  Words names;
  for (const Flag& flag : command.flags)
    names.insert(names.end(), flag.names.begin(), flag.names.end());
  return names;
}

Words commands_and_values(const CommandText& command) {
  Words words = command.commands;
  words.insert(words.end(), command.values.begin(), command.values.end());
  return words;
}

// The cases that bash and zsh share: the steps down to a command; and what may follow a flag, where
// `known` takes the values that are known.
std::string with_cases(const std::string& script, const std::vector<CommandText>& all,
                       const std::string& known) {
  std::string values, unknown;
  for (const CommandText& command : all)
    for (const Flag& flag : command.flags) {
      if (!flag.takes_value) continue;
      const std::string pattern = pattern_of(command, flag);
      if (flag.values.empty())
        unknown += (unknown.empty() ? "" : "|") + pattern;
      else
        values += fmt::format("    {}) {} ;;\n", pattern,
                              fmt::format(fmt::runtime(known), fmt::join(flag.values, " ")));
    }
  const std::string steps = fmt::format("{}", fmt::join(steps_down(all), "|"));
  return replaced(replaced(replaced(script, "@steps@", steps), "@values@", values), "@unknown@",
                  unknown);
}

std::string bash_script(const std::vector<CommandText>& all) {
  std::string script =
      R"(# Completes what lockstep is told, in bash: source <(lockstep completion bash)
_lockstep() {
  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command= words= i
  COMPREPLY=()
  # Bash takes --flag=value for three words.
  if [[ $current == = ]]; then
    current=
  elif [[ $before == = ]]; then
    before=${COMP_WORDS[COMP_CWORD-2]}
  fi
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case "$command ${COMP_WORDS[i]}" in
      @steps@) command="${command:+$command }${COMP_WORDS[i]}" ;;
    esac
  done
  case "$command $before" in
@values@    @unknown@) return ;;
    *) if [[ $current == -* ]]; then case $command in
@flags@    esac; else case $command in
@words@    esac; fi ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _lockstep lockstep
)";
  script = with_cases(script, all, "words='{}'");
  script = replaced(script, "@flags@", branches(all, flag_names, "words='{}'"));
  return replaced(script, "@words@", branches(all, commands_and_values, "words='{}'"));
}

// 'word:what it is', as _describe of zsh takes it.
std::string zsh_choice(const std::string& word, const std::string& text) {
  return quoted(text.empty() ? word : word + ":" + text);
}

std::string zsh_script(const std::vector<CommandText>& all) {
  const auto flags = [](const CommandText& command) {
    Words words;
    for (const Flag& flag : command.flags)
      for (const std::string& name : flag.names) words.push_back(zsh_choice(name, flag.text));
    return words;
  };
  const auto words = [&](const CommandText& command) {
    Words words = command.values;
    for (const std::string& sub : command.commands) {
      const std::string path = command.path.empty() ? sub : command.path + " " + sub;
      words.push_back(zsh_choice(sub, command_at(all, path).text));
    }
    return words;
  };
  std::string script = R"(#compdef lockstep
# Completes what lockstep is told, in zsh: source <(lockstep completion zsh)
_lockstep() {
  local command= before=${words[CURRENT-1]} i
  local -a choices
  if [[ ${words[CURRENT]} == --*=* ]]; then
    before=${words[CURRENT]%%=*}
    compset -P '*='
  fi
  for ((i = 2; i < CURRENT; ++i)); do
    case "$command ${words[i]}" in
      @steps@) command="${command:+$command }${words[i]}" ;;
    esac
  done
  case "$command $before" in
@values@    @unknown@) _files; return ;;
  esac
  if [[ ${words[CURRENT]} == -* ]]; then
    case $command in
@flags@    esac
  else
    case $command in
@words@    esac
  fi
  if (( $#choices )); then _describe lockstep choices; else _files; fi
}
if [[ $funcstack[1] == _lockstep ]]; then _lockstep "$@"; else compdef _lockstep lockstep; fi
)";
  script = with_cases(script, all, "choices=({}); _describe value choices; return");
  script = replaced(script, "@flags@", branches(all, flags, "choices=({})"));
  return replaced(script, "@words@", branches(all, words, "choices=({})"));
}

std::string fish_script(const std::vector<CommandText>& all) {
  std::string script =
      R"(# Completes what lockstep is told, in fish: lockstep completion fish | source
function __lockstep_at
    set -l command ''
    set -l given (commandline -opc)
    for word in $given[2..-1]
        switch "$command $word"
            case @steps@
                set command (string trim "$command $word")
        end
    end
    test "$command" = "$argv[1]"
end
)";
  script = replaced(script, "@steps@", fmt::format("{}", fmt::join(steps_down(all), " ")));
  for (const CommandText& command : all) {
    const std::string line =
        fmt::format("complete -c lockstep -n {}",
                    fish_quoted(fmt::format("__lockstep_at \"{}\"", command.path)));
    for (const std::string& sub : command.commands) {
      const std::string path = command.path.empty() ? sub : command.path + " " + sub;
      script +=
          fmt::format("{} -f -a {} -d {}\n", line, sub, fish_quoted(command_at(all, path).text));
    }
    if (!command.values.empty())
      script += fmt::format("{} -f -a '{}'\n", line, fmt::join(command.values, " "));
    for (const Flag& flag : command.flags) {
      script += line;
      for (const std::string& name : flag.names)
        script += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      if (!flag.values.empty())
        script += fmt::format(" -x -a '{}'", fmt::join(flag.values, " "));
      else if (flag.takes_value)
        script += " -r";
      script += fmt::format(" -d {}\n", fish_quoted(flag.text));
    }
  }
  return script;
}

class CompletionCommand : public Command {
 public:
  explicit CompletionCommand(CLI::App& application)
      : Command(application.add_subcommand(
            "completion", "A script with which a shell completes commands, flags and names")),
        application_(application) {
    command_->add_option("SHELL", shell_, "bash, zsh or fish");
    command_->footer(
        "\nExamples:\n  source <(lockstep completion bash)      in ~/.bashrc\n"
        "  source <(lockstep completion zsh)       in ~/.zshrc, after compinit\n"
        "  lockstep completion fish | source       in ~/.config/fish/config.fish");
  }

  int run() const override {
    if (shell_.empty()) throw UsageError("which shell? bash, zsh or fish");
    index_named("shell", shell_, kShells);
    std::vector<CommandText> all;
    describe(application_, "", all);
    fmt::print("{}", shell_ == "bash"  ? bash_script(all)
                     : shell_ == "zsh" ? zsh_script(all)
                                       : fish_script(all));
    return 0;
  }

 private:
  const CLI::App& application_;
  std::string shell_;
};

}  // namespace

std::unique_ptr<Command> add_completion(CLI::App& application) {
  return std::make_unique<CompletionCommand>(application);
}

}  // namespace lockstep
