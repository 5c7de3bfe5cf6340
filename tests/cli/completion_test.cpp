// What a shell offers when the script of `lockstep completion` is loaded, and `lockstep --version`.
#include <gmock/gmock.h>

#include <cstdlib>

#include "cli/mistake.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

using Words = std::vector<std::string>;

Words lines_of(const std::string& text) {
  std::istringstream in(text);
  Words lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

bool has(const std::string& shell) {
  return std::system(("command -v " + shell + " >/dev/null 2>&1").c_str()) == 0;
}

// In `shell`, with the script loaded, what `words` after the program's name and the last of them,
// perhaps empty, are completed to.
class Completion : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!has(GetParam())) GTEST_SKIP() << "no " << GetParam() << " here";
    const Outcome outcome = lockstep("completion " + GetParam());
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    std::ofstream(file_) << outcome.out;
  }

  Words offered(const Words& words) const {
    std::string text;
    if (GetParam() == "bash") text = in_bash(words);
    if (GetParam() == "zsh") text = in_zsh(words);
    if (GetParam() == "fish") text = in_fish(words);
    std::ofstream(folder_.path() + "/ask") << text;
    const std::string command =
        GetParam() + " " + folder_.path() + "/ask 2>" + folder_.path() + "/err";
    std::FILE* pipe = popen(command.c_str(), "r");
    std::string out;
    char buffer[4096];
    for (std::size_t got; (got = fread(buffer, 1, sizeof buffer, pipe)) > 0;)
      out.append(buffer, got);
    EXPECT_EQ(pclose(pipe), 0);
    std::ifstream err(folder_.path() + "/err");
    EXPECT_THAT(std::string(std::istreambuf_iterator(err), {}), IsEmpty());
    return lines_of(out);
  }

 private:
  static std::string quoted(const Words& words) {
    std::string text;
    for (const std::string& word : words) text += " '" + word + "'";
    return text;
  }
  std::string in_bash(const Words& words) const {
    return "source " + file_ + "\nCOMP_WORDS=(lockstep" + quoted(words) +
           ")\nCOMP_CWORD=" + std::to_string(words.size()) +
           "\n_lockstep\nfor word in \"${COMPREPLY[@]}\"; do echo \"$word\"; done\n";
  }
  // What the completion system of zsh would be asked to offer, less what does not match.
  std::string in_zsh(const Words& words) const {
    return "compdef() { :; }\n_files() { :; }\ncompset() { prefix=${words[CURRENT]#*=}; }\n"
           "_describe() { print -rl -- ${${(P)2}%%:*}; }\nsource " +
           file_ + "\nwords=(lockstep" + quoted(words) +
           ")\nCURRENT=" + std::to_string(words.size() + 1) +
           "\nprefix=${words[CURRENT]}\n_lockstep > " + folder_.path() +
           "/all\nwhile read -r word; do [[ $word == $prefix* ]] && print -r -- $word; done < " +
           folder_.path() + "/all\ntrue\n";
  }
  std::string in_fish(const Words& words) const {
    std::string line = "lockstep";
    for (const std::string& word : words) line += " " + word;
    return "source " + file_ + "\ncomplete -C '" + line +
           "' | string replace -r '\\t.*' ''\ntrue\n";
  }

  const bench::PrivateFolder folder_{::testing::TempDir()};
  const std::string file_ = folder_.path() + "/script";
};
INSTANTIATE_TEST_SUITE_P(Shells, Completion, ::testing::Values("bash", "zsh", "fish"),
                         [](const auto& info) { return info.param; });

TEST_P(Completion, OffersCommands) {
  EXPECT_THAT(offered({""}),
              IsSupersetOf({"train", "study", "report", "bench", "list", "data", "completion"}));
  EXPECT_THAT(offered({"tr"}), ElementsAre("train")) << "and none that people do not start";
  EXPECT_THAT(offered({"data", ""}), IsSupersetOf({"fetch", "make"}));
  EXPECT_THAT(offered({"--vers"}), ElementsAre("--version"));
}

TEST_P(Completion, OffersTheFlagsOfACommand) {
  EXPECT_THAT(offered({"train", "--ch"}), ElementsAre("--checkpoint-every"));
  EXPECT_THAT(offered({"train", "--limit", "10", "--st"}), IsSupersetOf({"--steps", "--strategy"}));
  EXPECT_THAT(offered({"study", "--"}), AllOf(Contains("--quick"), Not(Contains("--strategy"))));
  EXPECT_THAT(offered({"data", "make", "--per"}), ElementsAre("--per-class"));
  EXPECT_THAT(offered({"train", "--tel"}), IsEmpty()) << "--help does not show it either";
}

TEST_P(Completion, OffersNames) {
  Words strategies;
  for (const auto& row : lockstep("list strategies --json").json())
    strategies.push_back(row["name"]);
  ASSERT_GT(strategies.size(), 10u);
  EXPECT_THAT(offered({"train", "--strategy", ""}),
              ::testing::UnorderedElementsAreArray(strategies));
  EXPECT_THAT(offered({"train", "--model", "mnist-c"}), ElementsAre("mnist-cnn"));
  EXPECT_THAT(offered({"bench", "allreduce", "--cluster", "ne"}), ElementsAre("netns"));
  EXPECT_THAT(offered({"list", "opt"}), ElementsAre("optimizers"));
  EXPECT_THAT(offered({"data", "fetch", "fash"}), ElementsAre("fashion-mnist"));
  EXPECT_THAT(offered({"completion", "z"}), ElementsAre("zsh"));
}

TEST_P(Completion, OffersNamesAfterAnEqualsSign) {
  if (GetParam() == "bash") {  // as its readline cuts words
    EXPECT_THAT(offered({"train", "--split", "=", "diri"}), ElementsAre("dirichlet"));
    EXPECT_THAT(offered({"train", "--split", "="}), Contains("dirichlet"));
  } else {
    EXPECT_THAT(offered({"train", "--split=diri"}), Contains(HasSubstr("dirichlet")));
  }
}

TEST(CompletionCommand, KnowsItsShells) {
  expect_refused(lockstep("completion fsh"), {"", "valid: bash, zsh, fish"});
  expect_refused(lockstep("completion"), {"", "which shell? bash, zsh or fish"});
}

TEST(Version, NamesVersionCommitAndLibraries) {
  const Outcome outcome = lockstep("--version");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const Words lines = lines_of(outcome.out);
  EXPECT_THAT(lines, Each(MatchesRegex("[A-Za-z0-9_]+ [0-9]+[0-9.]+[a-z]?( \\(commit .+\\))?")));
  EXPECT_THAT(lines.at(0), AllOf(StartsWith("lockstep "), HasSubstr("(commit ")));
  for (const char* library : {"LibTorch ", "UCX ", "SimGrid ", "Thrift "})
    EXPECT_THAT(lines, Contains(StartsWith(library)));
}

TEST(Version, IsJsonToo) {
  const auto json = lockstep("--version --json").json().at(0);
  EXPECT_EQ(json["schema_version"], 1);
  EXPECT_THAT(json["commit"].get<std::string>(), Not(IsEmpty()));
  EXPECT_THAT(json["libraries"]["LibTorch"].get<std::string>(), StartsWith("1."));
  expect_refused(lockstep("--json"), {"", "--json requires --version"});
  expect_refused(lockstep(""), {"", "what to do?"});
}

}  // namespace
}  // namespace lockstep
