// lockstep completion bash: prints a script that lets a shell complete commands, flags and the
// names that flags take. All of it comes from the application's own description and from the lists
// of `lockstep list`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "cli/commands.h"
#include "core/error.h"
#include "core/names.h"
#include "data/published.h"

namespace lockstep {
namespace {

using Words = std::vector<std::string>;

constexpr std::string_view kShells[] = {"bash", "zsh", "fish"};

// A word that may come next, and what it is; names that a flag or a command takes have no text.
struct Choice {
  std::string word, text;
};
struct Flag {
  Words names;
  std::string text;
  bool takes_value = false;
  Words values;  // known ones; none: whatever the user knows, perhaps a file
};
struct CommandText {
  std::string path;           // "", "train", "data fetch"
  std::vector<Choice> words;  // that may follow it: commands, or names
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
  CommandText command{path, {}, {}};
  const auto shown = [](const auto* part) { return !part->get_group().empty(); };
  for (const CLI::Option* option : application.get_options(shown))
    if (!option->get_positional()) command.flags.push_back(flag_from(*option));
  const auto below = application.get_subcommands(shown);
  for (const CLI::App* sub : below)
    command.words.push_back({sub->get_name(), sub->get_description()});
  for (const std::string& name : values_of(path)) command.words.push_back({name, ""});
  all.push_back(std::move(command));
  for (const CLI::App* sub : below)
    describe(*sub, path.empty() ? sub->get_name() : path + " " + sub->get_name(), all);
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
    if (!command.path.empty())
      steps.push_back(
          quoted((command.path.find(' ') == std::string::npos ? " " : "") + command.path));
  return steps;
}

// How bash and zsh are told of words: a choice among several, an assignment of choices, and what is
// done with the values that a flag is known to take.
struct Spelling {
  std::string (*choice)(const Choice&);
  std::string assignment, known;
};

// The script, with what the commands are in place of @steps@, @values@, @unknown@ (flags that take
// a value nobody knows), @flags@ and @words@: branches of a `case`.
std::string filled_in(std::string script, const std::vector<CommandText>& all,
                      const Spelling& spelling) {
  std::string values, unknown, flags, words;
  const auto branch = [&](const CommandText& command, const Words& choices) {
    if (choices.empty()) return std::string();
    return fmt::format("      {}) {} ;;\n", quoted(command.path),
                       fmt::format(fmt::runtime(spelling.assignment), fmt::join(choices, " ")));
  };
  for (const CommandText& command : all) {
    Words flag_choices, word_choices;
    for (const Flag& flag : command.flags) {
      Words patterns;  // 'train -n' and 'train --workers'
      for (const std::string& name : flag.names) {
        flag_choices.push_back(spelling.choice({name, flag.text}));
        patterns.push_back(quoted(command.path + " " + name));
      }
      const std::string pattern = fmt::format("{}", fmt::join(patterns, "|"));
      if (flag.takes_value && flag.values.empty())
        unknown += (unknown.empty() ? "" : "|") + pattern;
      else if (flag.takes_value)
        values +=
            fmt::format("    {}) {} ;;\n", pattern,
                        fmt::format(fmt::runtime(spelling.known), fmt::join(flag.values, " ")));
    }
    for (const Choice& choice : command.words) word_choices.push_back(spelling.choice(choice));
    flags += branch(command, flag_choices);
    words += branch(command, word_choices);
  }
  const std::string steps = fmt::format("{}", fmt::join(steps_down(all), "|"));
  for (const auto& [place, text] : {std::pair("@steps@", steps),
                                    {"@values@", values},
                                    {"@unknown@", unknown},
                                    {"@flags@", flags},
                                    {"@words@", words}})
    script = replaced(script, place, text);
  return script;
}

std::string bash_script(const std::vector<CommandText>& all) {
  constexpr const char* kScript =
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
  return filled_in(kScript, all,
                   {[](const Choice& choice) { return choice.word; }, "words='{}'", "words='{}'"});
}

std::string zsh_script(const std::vector<CommandText>& all) {
  constexpr const char* kScript = R"(#compdef lockstep
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
  // 'word:what it is', as _describe takes it.
  const auto described = [](const Choice& choice) {
    return quoted(choice.text.empty() ? choice.word : choice.word + ":" + choice.text);
  };
  return filled_in(kScript, all,
                   {described, "choices=({})", "choices=({}); _describe value choices; return"});
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
    for (const auto& [word, text] : command.words)
      script += fmt::format("{} -f -a {}{}\n", line, word,
                            text.empty() ? "" : " -d " + fish_quoted(text));
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
