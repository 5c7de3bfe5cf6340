// tidy_rules.h over every C++ file and every document; and each rule on a sample that breaks it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tidy_rules.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

struct Repository {
  std::vector<SourceFile> sources, documents;
  Names names;
};

const Repository& repository() {
  static const Repository all = [] {
    const std::filesystem::path root = LOCKSTEP_SOURCE_DIR;
    Repository found;
    const auto add = [&](const std::filesystem::path& file) {
      const std::string path = file.lexically_relative(root), ending = file.extension();
      found.names.add(path);
      const bool is_document = ending == ".md";
      const bool is_source = path.find('/') != std::string::npos && !path.starts_with("web/") &&
                             (ending == ".h" || ending == ".cpp");
      if (!is_document && !is_source) return;
      std::ifstream in(file);
      (is_document ? found.documents : found.sources)
          .push_back({path, {std::istreambuf_iterator(in), {}}});
    };
    for (const auto& entry : std::filesystem::directory_iterator(root))
      if (entry.is_regular_file()) add(entry.path());
    for (const char* top :
         {"cmake", "docs", "examples", "peers", "scripts", "src", "studies", "tests", "web"}) {
      found.names.add(top);
      for (const auto& entry : std::filesystem::recursive_directory_iterator(root / top))
        add(entry.path());
    }
    return found;
  }();
  return all;
}

const std::vector<SourceFile>& tree() { return repository().sources; }

template <class... Further>
Complaints of_all(const std::vector<SourceFile>& files,
                  Complaints (*rule)(const SourceFile&, const Further&...),
                  const Further&... further) {
  Complaints all;
  for (const SourceFile& file : files)
    for (const std::string& complaint : rule(file, further...)) all.push_back(complaint);
  return all;
}

Complaints of_tree(Complaints (*rule)(const SourceFile&)) { return of_all(tree(), rule); }

std::string repeat(int times, const std::string& line) {
  std::string out;
  for (int i = 0; i < times; ++i) out += line;
  return out;
}

TEST(TidyRule, IncludesPointLeft) {
  EXPECT_THAT(
      include_direction({"src/transport/shm/shm.cpp", "\n#include \"collectives/ring.h\"\n"}),
      ElementsAre("src/transport/shm/shm.cpp:2: transport/ may not include collectives/ring.h"));
  EXPECT_THAT(include_direction({"src/core/a.cpp", "#include \"core/a.h\"\n#include <map>\n"}),
              IsEmpty());
  EXPECT_THAT(include_direction({"src/misc/a.cpp", ""}),
              ElementsAre("src/misc/a.cpp: its folder has no row in tidy_rules.cpp"));
}

TEST(TidyRule, LibTorchStaysInItsFolders) {
  EXPECT_THAT(
      no_libtorch({"src/core/a.h", "#include <torch/torch.h>\n#include \"c10/util.h\"\n"}),
      ElementsAre("src/core/a.h:1: LibTorch in core/", "src/core/a.h:2: LibTorch in core/"));
  EXPECT_THAT(no_libtorch({"src/replica/a.h", "#include <ATen/ATen.h>\n"}), IsEmpty());
}

TEST(TidyRule, TheRealWorldStaysBelowTheTransport) {
  EXPECT_THAT(two_worlds({"src/collectives/a.cpp", "#include <thread>\n"}),
              ElementsAre("src/collectives/a.cpp:1: collectives/ may not use <thread>"));
  EXPECT_THAT(
      two_worlds({"src/transport/a.cpp", "#include <thread>\nauto h = std::getenv(\"H\");\n"}),
      ElementsAre("src/transport/a.cpp:2: only cli/ reads the environment"));
  EXPECT_THAT(two_worlds({"src/core/a.cpp", "// getenv is for cli\n"}), IsEmpty());
  EXPECT_THAT(two_worlds({"src/cli/a.cpp", "#include <chrono>\nauto h = getenv(\"H\");\n"}),
              IsEmpty());
}

TEST(TidyRule, FilesLinesAndFunctionsAreShort) {
  EXPECT_THAT(sizes({"a.cpp", repeat(601, "\n")}), ElementsAre("a.cpp: 601 lines"));
  EXPECT_THAT(sizes({"a.cpp", repeat(100, "é") + "\n" + std::string(101, 'x')}),
              ElementsAre("a.cpp:2: 101 columns"));
  EXPECT_THAT(sizes({"a.cpp", "int x;\nvoid f() {\n" + repeat(59, "  g();\n") + "}\n"}),
              ElementsAre("a.cpp:2: a function of 61 lines"));
  EXPECT_THAT(sizes({"a.cpp", repeat(5, "void f() {\n" + repeat(58, "  g();\n") + "}\n")}),
              IsEmpty());
}

TEST(TidyRule, FilesSayWhatTheyAre) {
  EXPECT_THAT(opening({"src/core/a.cpp", "int x;\n"}),
              ElementsAre("src/core/a.cpp: starts with neither a comment nor its own header"));
  EXPECT_THAT(opening({"src/core/a.h", "// A.\nint x;\n"}),
              ElementsAre("src/core/a.h: no #pragma once"));
  EXPECT_THAT(opening({"src/core/a.cpp", "#include \"core/a.h\"\n"}), IsEmpty());
  EXPECT_THAT(opening({"src/core/a.h", "// A.\n#pragma once\n"}), IsEmpty());
}

TEST(TidyRule, TagsAreInOnePlace) {
  const std::string tag = "constexpr Tag kTag{Purpose::control, 0x901};\n";
  EXPECT_THAT(tags_in_one_place({"src/train/a.cpp", "\n" + tag}),
              ElementsAre("src/train/a.cpp:2: a tag's number belongs in transport/channels.h"));
  EXPECT_THAT(tags_in_one_place({"src/train/a.cpp", "f({Purpose::weights, 1});\n"}), SizeIs(1));
  EXPECT_THAT(tags_in_one_place({"src/transport/channels.h", tag}), IsEmpty());
  EXPECT_THAT(tags_in_one_place({"examples/a.h", "own_channel(Purpose::control, 1)\n"}), IsEmpty());
  EXPECT_THAT(tags_in_one_place({"tests/train/a.cpp", tag}), IsEmpty());
  EXPECT_THAT(tags_in_one_place({"src/train/a.cpp", "f({Purpose::weights, bucket});  // 1\n"}),
              IsEmpty());
}

TEST(TidyRule, NothingIsLeftForLater) {
  EXPECT_THAT(no_leftovers({"a.cpp",
                            "// TO"
                            "DO: b\n"}),
              ElementsAre("a.cpp:1: do it or leave it out"));
  EXPECT_THAT(no_leftovers({"a.cpp", "// to do\n"}), IsEmpty());
}

TEST(TidyRule, TestsHaveFoldersOfTheirOwn) {
  const auto complaints = [](const std::string& rest) {
    return no_fixed_folders({"tests/a.cpp", "auto p = ::testing::TempDir()" + rest});
  };
  EXPECT_THAT(
      complaints(" + \"a\";\n"),
      ElementsAre("tests/a.cpp:1: a fixed name for temporary files: take a Folder of folder.h"));
  EXPECT_THAT(complaints(") / \"a\";\n"), SizeIs(1));
  EXPECT_THAT(complaints(" + \"a-XXXXXX\";\nF f(p);\n"), IsEmpty());
}

TEST(TidyRule, SamplesAreMarked) {
  const std::string code = "//\n//   rank.run(7);  // now\n";
  EXPECT_THAT(samples_are_marked({"src/core/a.h", "// How:\n" + code}),
              ElementsAre("src/core/a.h:3: code that no test compiles: see tests/samples.cpp"));
  EXPECT_THAT(samples_are_marked({"src/core/a.h", "// Sample:\n" + code}), IsEmpty());
  EXPECT_THAT(samples_are_marked({"src/core/a.h", "// Sample:\nint x;\n" + code}), SizeIs(1));
  EXPECT_THAT(samples_are_marked({"src/core/a.h", "//   one   a word (or two);\n"}), IsEmpty());
}

Names some_names() {
  Names names;
  for (const char* path : {"src", "src/core", "src/core/rng.h", "docs/a.md", "docs/b/c.md"})
    names.add(path);
  return names;
}

TEST(TidyRule, DocumentsNameWhatExists) {
  const auto complaints = [](const std::string& path, const std::string& text) {
    return documents_name_what_exists({path, text}, some_names());
  };
  for (const char* good :
       {"`core/rng.h`", "`rng.h`", "`src/core/`", "`cat src/core/rng.h now`", "`r*.h`",
        "[a](../docs/a.md#top)", "[c](b/c.md)", "[w](https://w.org/x.md)", "`<torch/torch.h>`",
        "rang.h is no path without backquotes", "`// code`", "`run.json` in `runs/`",
        "`loss/test`"})
    EXPECT_THAT(complaints("docs/a.md", good), IsEmpty()) << good;
  EXPECT_THAT(complaints("docs/a.md", "\n`core/rang.h`, `src/cor/`"),
              ElementsAre("docs/a.md:2: there is no core/rang.h in this repository",
                          "docs/a.md:2: there is no src/cor in this repository"));
  for (const char* bad : {"`rng.cpp`", "`cat src/core/x`", "`x*.h`", "[c](c.md)", "[c](../../a.md)",
                          "```\ncat docs/d.md\n```"})
    EXPECT_THAT(complaints("docs/a.md", bad), SizeIs(1)) << bad;
  EXPECT_THAT(complaints("src/README.md", "`cor/`"), SizeIs(1));
}

TEST(TidyRule, CommentsNameWhatExists) {
  const auto complaints = [](const std::string& text) {
    return comments_name_what_exists({"src/core/a.cpp", text}, some_names());
  };
  EXPECT_THAT(complaints("f();  // See core/rang.h.\n"),
              ElementsAre("src/core/a.cpp:1: there is no core/rang.h in this repository"));
  EXPECT_THAT(complaints("// See rng.h, <jpeglib.h>.\n#include \"b.h\"\nf(\"//b.h\");\n"),
              IsEmpty());
}

TEST(TidyRule, FoldersAreOnTheMap) {
  const std::vector<SourceFile> files = {
      {"src/core/a.h", ""}, {"src/a/b/c.h", ""}, {"src/a/c/d.h", ""}, {"tests/d.h", ""}};
  EXPECT_THAT(folders_are_on_the_map({"src/README.md", "`core/`, `c/` and b/"}, files),
              ElementsAre("src/README.md: does not name `a/b/`"));
}

TEST(TidyRule, HeadersHaveReaders) {
  const SourceFile header{"src/core/a.h", ""}, own{"src/core/a.cpp", "#include \"core/a.h\"\n"};
  EXPECT_THAT(orphans({header, own}), ElementsAre("src/core/a.h: nobody includes it"));
  EXPECT_THAT(orphans({header, own, {"src/core/b.cpp", own.text}}), IsEmpty());
  EXPECT_THAT(orphans({header, {"src/core/b.cpp", "#include \"a.h\"\n"}}), IsEmpty());
}

TEST(TidyRule, TypesAreDefinedOnce) {
  const auto file = [](const std::string& name, const std::string& text) {
    return SourceFile{"src/core/" + name, "namespace lockstep {\n" + text + "\n}\n"};
  };
  const SourceFile place = file("a.h", "class Place final : public A {\n};");
  const SourceFile hidden = file("c.cpp", "namespace {\nenum Place { here };\n}");
  const std::string again = " lockstep::Place is defined a second time, see src/core/a.h:2";
  EXPECT_THAT(defined_once({place, file("b.h", "template <class T>\nstruct Place {};")}),
              ElementsAre("src/core/b.h:3:" + again));
  EXPECT_THAT(defined_once({place, hidden}), ElementsAre("src/core/c.cpp:3:" + again));
  EXPECT_THAT(defined_once({hidden, place}), ElementsAre("src/core/c.cpp:3:" + again));
  EXPECT_THAT(defined_once({hidden, file("d.cpp", "namespace {\nstruct Place {};\n}")}), IsEmpty());
  for (const char* other :
       {"class Place;", "struct A { struct Place {}; };", "// struct Place {\n",
        "struct A::Place {};", "namespace b {\nstruct Place {};\n}",
        "template <>\nstruct Place<int> {};", "void f(class Place* p) { struct Place {}; }",
        "#define P struct Place {\n", "auto p = R\"(struct Place {)\";",
        "class Place f() { return {}; }"})
    EXPECT_THAT(defined_once({place, file("b.h", other)}), IsEmpty()) << other;
}

void expect_none(const Complaints& complaints) {
  if (!complaints.empty()) ADD_FAILURE() << fmt::format("{}", fmt::join(complaints, "\n"));
}

TEST(Tidy, IncludesPointLeft) { expect_none(of_tree(include_direction)); }
TEST(Tidy, LibTorchStaysInItsFolders) { expect_none(of_tree(no_libtorch)); }
TEST(Tidy, TheRealWorldStaysBelowTheTransport) { expect_none(of_tree(two_worlds)); }
TEST(Tidy, FilesLinesAndFunctionsAreShort) { expect_none(of_tree(sizes)); }
TEST(Tidy, FilesSayWhatTheyAre) { expect_none(of_tree(opening)); }
TEST(Tidy, TagsAreInOnePlace) { expect_none(of_tree(tags_in_one_place)); }
TEST(Tidy, NothingIsLeftForLater) { expect_none(of_tree(no_leftovers)); }
TEST(Tidy, TestsHaveFoldersOfTheirOwn) { expect_none(of_tree(no_fixed_folders)); }
TEST(Tidy, HeadersHaveReaders) { expect_none(orphans(tree())); }
TEST(Tidy, TypesAreDefinedOnce) { expect_none(defined_once(tree())); }
TEST(Tidy, SamplesAreMarked) { expect_none(of_tree(samples_are_marked)); }
TEST(Tidy, DocumentsNameWhatExists) {
  const Repository& all = repository();
  expect_none(of_all(all.documents, documents_name_what_exists, all.names));
}
TEST(Tidy, CommentsNameWhatExists) {
  expect_none(of_all(tree(), comments_name_what_exists, repository().names));
}
TEST(Tidy, FoldersAreOnTheMap) {
  const auto map = std::ranges::find(repository().documents, "src/README.md", &SourceFile::path);
  ASSERT_NE(map, repository().documents.end());
  expect_none(folders_are_on_the_map(*map, tree()));
}
TEST(Tidy, SeesTheTree) {
  EXPECT_GT(tree().size(), 20u);
  EXPECT_GT(repository().documents.size(), 5u);
}

}  // namespace
}  // namespace lockstep
