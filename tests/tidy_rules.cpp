#include "tidy_rules.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <map>
#include <regex>
#include <set>
#include <sstream>

namespace lockstep {
namespace {

std::vector<std::string> lines_of(const SourceFile& file) {
  std::vector<std::string> lines;
  std::istringstream in(file.text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string at(const SourceFile& file, std::size_t index) {
  return file.path + ":" + std::to_string(index + 1) + ": ";
}

struct Include {
  std::size_t line;
  std::string name;  // without quotes or brackets
  bool quoted;
};

std::vector<Include> includes_of(const SourceFile& file) {
  static const std::regex pattern(R"re(^\s*#\s*include\s*(["<])([^">]+)[">].*)re");
  std::vector<Include> found;
  const auto lines = lines_of(file);
  std::smatch match;
  for (std::size_t i = 0; i < lines.size(); ++i)
    if (std::regex_match(lines[i], match, pattern))
      found.push_back({i, match[2], match[1] == "\""});
  return found;
}

// What each folder of src/ may include, itself apart. A new folder needs a row.
const std::string kBelowTrain =
    "core transport compression collectives strategies parallel data replica models measure "
    "cluster";
const std::map<std::string, std::string> kMayInclude = {
    {"core", ""},
    {"transport", "core"},
    {"compression", "core"},
    {"collectives", "core transport compression"},
    {"measure", "core transport collectives"},
    {"cluster", "core transport"},
    {"bench", "core"},  // the peers' programs link it, so nothing of our transports
    {"strategies", "core transport compression collectives"},
    {"parallel", "core transport compression collectives strategies"},
    {"data", "core"},
    {"replica", "core data"},
    {"models", "core data replica"},
    {"train", kBelowTrain},
    {"lockstep", kBelowTrain + " train"},  // what users of the library see
    {"study", kBelowTrain + " train"},
    {"web", "core"},
    {"cli", kBelowTrain + " bench train study web"},
};

bool lists(const std::string& words, const std::string& word) {
  return (" " + words + " ").find(" " + word + " ") != std::string::npos;
}

// The text without comments, strings and preprocessor lines; line ends stay where they are.
std::string code_of(const std::string& text) {
  std::string code;
  const auto skip_to = [&](std::size_t from, std::size_t end) {
    end = std::min(end, text.size());
    code.append(static_cast<std::size_t>(std::count(text.begin() + static_cast<long>(from),
                                                    text.begin() + static_cast<long>(end), '\n')),
                '\n');
    return end;
  };
  const auto end_of = [&](const std::string& what, std::size_t from) {
    const std::size_t found = text.find(what, from);
    return found == std::string::npos ? found : found + what.size();
  };
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    const bool first = code.empty() || code.back() == '\n';  // in its line, blanks apart
    if (text.compare(i, 2, "//") == 0) {
      i = skip_to(i, text.find('\n', i));
    } else if (text.compare(i, 2, "/*") == 0) {
      i = skip_to(i, end_of("*/", i + 2));
    } else if (text.compare(i, 2, "R\"") == 0) {
      const std::size_t open = text.find('(', i);
      i = skip_to(i, end_of(")" + text.substr(i + 2, open - i - 2) + "\"", open));
    } else if (c == '"' || (c == '\'' && !(i > 0 && std::isalnum(text[i - 1])))) {
      std::size_t end = i + 1;
      while (end < text.size() && text[end] != c) end += text[end] == '\\' ? 2 : 1;
      i = skip_to(i, end + 1);
    } else if (c == '#' && first) {
      std::size_t end = text.find('\n', i);
      while (end < text.size() && text[end - 1] == '\\') end = text.find('\n', end + 1);
      i = skip_to(i, end);
    } else {
      if (!(first && c == ' ')) code += c;
      ++i;
    }
  }
  return code;
}

struct TypeDefinition {
  std::string name;  // with its namespaces, unnamed ones apart: "lockstep::Rng"
  bool unnamed;      // in an unnamed namespace, so that other files do not see it
  std::string where;
};

// Classes, structs and enums that are defined at the level of a namespace.
std::vector<TypeDefinition> types_of(const SourceFile& file) {
  static const std::regex opens_namespace(R"(\s*(?:inline\s+)?namespace\s*([\w:]*)\s*)");
  static const std::regex opens_type(R"([^=()]*\b(?:struct|class|enum)\s+(?:alignas\([^)]*\)\s*)?)"
                                     R"((\w+)\s*(?:final\s*)?(?::[^:][^]*)?)");
  std::vector<TypeDefinition> found;
  std::vector<std::string> namespaces;  // "" is an unnamed one
  int deeper = 0;                       // open braces that are no namespace's
  std::size_t line = 0, start = 0;      // where the statement under way begins
  const std::string code = code_of(file.text);
  for (std::size_t i = 0; i < code.size(); ++i) {
    const char c = code[i];
    line += c == '\n';
    if (c != '{' && c != '}' && c != ';') continue;
    const std::string statement = code.substr(start, i - start);
    start = i + 1;
    std::smatch match;
    if (c == '}' && deeper > 0) {
      --deeper;
    } else if (c == '}' && !namespaces.empty()) {
      namespaces.pop_back();
    } else if (c == '{' && deeper == 0 && std::regex_match(statement, match, opens_namespace)) {
      namespaces.push_back(match[1]);
    } else if (c == '{') {
      if (deeper++ == 0 && std::regex_match(statement, match, opens_type)) {
        TypeDefinition type{match[1], false, at(file, line)};
        for (auto space = namespaces.rbegin(); space != namespaces.rend(); ++space)
          if (space->empty())
            type.unnamed = true;
          else
            type.name = *space + "::" + type.name;
        found.push_back(type);
      }
    }
  }
  return found;
}

// The words of a line that could be paths, without the full stop of a sentence. Left out are those
// that begin with "<", as files of others are written, and those in which NAME stands for anything.
std::vector<std::string> words_of(const std::string& line) {
  const auto in_path = [](unsigned char c) { return std::isalnum(c) || std::strchr("_-./*", c); };
  std::vector<std::string> words;
  for (auto end = line.begin(); end != line.end();) {
    const auto begin = std::find_if(end, line.end(), in_path);
    end = std::find_if_not(begin, line.end(), in_path);
    const bool foreign = begin != line.begin() && begin[-1] == '<';
    std::string word(begin, end);
    while (word.ends_with('.')) word.pop_back();
    const bool has_letters =
        std::ranges::any_of(word, [](unsigned char c) { return std::isalpha(c); });
    if (!foreign && has_letters && word.find("NAME") == std::string::npos) words.push_back(word);
  }
  return words;
}

bool has_source_ending(const std::string& word) {
  static const std::set<std::string> endings = {".h",  ".cpp", ".def", ".cmake", ".thrift",
                                                ".md", ".py",  ".sh",  ".mjs"};
  const std::filesystem::path path(word);
  return endings.contains(path.extension()) && !path.stem().empty();
}

std::string not_there(const std::string& name) {
  return "there is no " + name + " in this repository";
}

}  // namespace

Complaints include_direction(const SourceFile& file) {
  if (!file.in_src()) return {};
  const auto row = kMayInclude.find(file.folder());
  if (row == kMayInclude.end()) return {file.path + ": its folder has no row in tidy_rules.cpp"};
  Complaints out;
  for (const Include& include : includes_of(file)) {
    const std::string folder = include.name.substr(0, include.name.find('/'));
    if (!include.quoted || folder == file.folder() || lists(row->second, folder)) continue;
    out.push_back(at(file, include.line) + file.folder() + "/ may not include " + include.name);
  }
  return out;
}

Complaints no_libtorch(const SourceFile& file) {
  static const std::set<std::string> with = {"replica", "models",   "data", "train",
                                             "study",   "lockstep", "cli"};
  static const std::regex libtorch("(torch|ATen|c10)/.*");
  if (!file.in_src() || with.contains(file.folder())) return {};
  Complaints out;
  for (const Include& include : includes_of(file))
    if (std::regex_match(include.name, libtorch))
      out.push_back(at(file, include.line) + "LibTorch in " + file.folder() + "/");
  return out;
}

Complaints two_worlds(const SourceFile& file) {
  static const std::set<std::string> real = {"transport", "cluster", "bench", "cli"};
  static const std::set<std::string> banned = {
      "thread", "mutex",  "shared_mutex", "condition_variable", "future",       "semaphore",
      "chrono", "ctime",  "time.h",       "sys/time.h",         "sys/socket.h", "pthread.h",
      "poll.h", "netdb.h"};
  // Threads that decode pictures ahead of their use. What they read does not depend on them, and no
  // rank's code runs on them (see reader_pool.h).
  static const std::set<std::string> reads_ahead = {"src/data/reader_pool.h",
                                                    "src/data/images.cpp"};
  // A thread that looks at the process from beside: no rank waits for it or depends on it.
  static const std::set<std::string> looks_on = {"src/measure/process_sampler.cpp"};
  static const std::regex environment(R"(\b(secure_)?getenv\b|\benviron\b)");
  if (!file.in_src()) return {};
  Complaints out;
  if (!real.contains(file.folder()) && !reads_ahead.contains(file.path) &&
      !looks_on.contains(file.path))
    for (const Include& include : includes_of(file))
      if (banned.contains(include.name))
        out.push_back(at(file, include.line) + file.folder() + "/ may not use <" + include.name +
                      ">");
  // ranks.cpp is to a user's program what cli/ is to ours; child.cpp hands the whole environment on
  // to what it starts.
  if (file.folder() == "cli" || file.path == "src/lockstep/ranks.cpp" ||
      file.path == "src/cluster/child.cpp")
    return out;
  const auto lines = lines_of(file);
  for (std::size_t i = 0; i < lines.size(); ++i)
    if (std::regex_search(lines[i].substr(0, lines[i].find("//")), environment))
      out.push_back(at(file, i) + "only cli/ reads the environment");
  return out;
}

Complaints sizes(const SourceFile& file) {
  static const std::regex starts_function(R"([A-Za-z_\[].*)");
  Complaints out;
  const auto lines = lines_of(file);
  if (lines.size() > 600) out.push_back(file.path + ": " + std::to_string(lines.size()) + " lines");
  std::size_t start = 0;  // of what the next "}" in the first column ends
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string& line = lines[i];
    const auto continues = [](unsigned char c) { return (c & 0xc0) == 0x80; };  // of a UTF-8 letter
    const auto columns = std::ssize(line) - std::ranges::count_if(line, continues);
    if (columns > 100) out.push_back(at(file, i) + std::to_string(columns) + " columns");
    if (line == "}" && i - start + 1 > 60)
      out.push_back(at(file, start) + "a function of " + std::to_string(i - start + 1) + " lines");
    if (std::regex_match(line, starts_function)) start = i;
  }
  return out;
}

Complaints opening(const SourceFile& file) {
  Complaints out;
  const std::string own =
      "#include \"" + std::filesystem::path(file.name()).replace_extension(".h").string() + "\"";
  if (file.in_src() && !file.text.starts_with("//") && !file.text.starts_with(own))
    out.push_back(file.path + ": starts with neither a comment nor its own header");
  if (file.is_header() && file.text.find("\n#pragma once\n") == std::string::npos)
    out.push_back(file.path + ": no #pragma once");
  return out;
}

Complaints tags_in_one_place(const SourceFile& file) {
  static const std::regex numbered(R"(\{\s*(lockstep::)?Purpose::\w+\s*,\s*[0-9])");
  if (file.path.starts_with("tests/") || file.path == "src/transport/channels.h") return {};
  Complaints out;
  const auto lines = lines_of(file);
  for (std::size_t i = 0; i < lines.size(); ++i)
    if (std::regex_search(lines[i].substr(0, lines[i].find("//")), numbered))
      out.push_back(at(file, i) + "a tag's number belongs in transport/channels.h");
  return out;
}

Complaints no_leftovers(const SourceFile& file) {
  static const std::regex leftover(R"(\b(TO)"
                                   R"(DO|FIX)"
                                   R"(ME|XX)"
                                   R"(X)\b)");
  Complaints out;
  const auto lines = lines_of(file);
  for (std::size_t i = 0; i < lines.size(); ++i)
    if (std::regex_search(lines[i], leftover)) out.push_back(at(file, i) + "do it or leave it out");
  return out;
}

Complaints no_fixed_folders(const SourceFile& file) {
  static const std::regex named(R"((TempDir|temp_directory_path)\(\)\)?\s*[+/])");
  if (!file.path.starts_with("tests/")) return {};
  Complaints out;
  const auto lines = lines_of(file);
  for (std::size_t i = 0; i < lines.size(); ++i)
    if (std::regex_search(lines[i], named) && lines[i].find("XXXXXX") == std::string::npos)
      out.push_back(at(file, i) + "a fixed name for temporary files: take a Folder of folder.h");
  return out;
}

Complaints samples_are_marked(const SourceFile& file) {
  static const std::regex code(R"(//   .*\w\(.*\);(\s*//.*)?)");
  if (!file.is_header()) return {};
  Complaints out;
  bool in_sample = false;
  const auto lines = lines_of(file);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i] == "// Sample:" || lines[i].starts_with("// Sample, with "))
      in_sample = true;
    else if (!lines[i].starts_with("//"))
      in_sample = false;
    else if (!in_sample && std::regex_match(lines[i], code))
      out.push_back(at(file, i) + "code that no test compiles: see tests/samples.cpp");
  }
  return out;
}

Complaints orphans(const std::vector<SourceFile>& files) {
  using std::filesystem::path;
  std::set<std::string> used;
  for (const SourceFile& file : files)
    for (const Include& include : includes_of(file))
      for (path header : {path(include.name), path(file.name()).parent_path() / include.name})
        if (header.replace_extension() != path(file.name()).replace_extension())
          used.insert(header);
  Complaints out;
  for (const SourceFile& file : files)
    if (file.is_header() && !used.contains(path(file.name()).replace_extension()))
      out.push_back(file.path + ": nobody includes it");
  return out;
}

Complaints defined_once(const std::vector<SourceFile>& files) {
  std::map<std::string, std::vector<TypeDefinition>> types;
  for (const SourceFile& file : files)
    if (file.in_src())
      for (const TypeDefinition& type : types_of(file)) types[type.name].push_back(type);
  Complaints out;
  for (const auto& [name, all] : types) {
    const auto named = std::ranges::find(all, false, &TypeDefinition::unnamed);
    if (named == all.end()) continue;
    for (const TypeDefinition& type : all)
      if (&type != &*named)
        out.push_back(type.where + name + " is defined a second time, see " +
                      named->where.substr(0, named->where.size() - 2));
  }
  return out;
}

void Names::add(const std::string& path) {
  names_.insert(path);
  for (std::size_t i = 0; i < path.size(); ++i)
    if (path[i] == '/') names_.insert(path.substr(i + 1));
}

bool Names::has(const std::string& name) const {
  if (name.find('*') == std::string::npos) return names_.contains(name);
  const std::string any = std::regex_replace(name, std::regex("\\*"), "[^/]*");
  return std::ranges::any_of(
      names_, [&, all = std::regex(any)](const auto& one) { return std::regex_match(one, all); });
}

Complaints documents_name_what_exists(const SourceFile& document, const Names& names) {
  static const std::regex link(R"(\]\(([^)#]+)[^)]*\))"), quoted("`([^`]+)`");
  const bool is_map = document.path == "src/README.md" || document.path == "CONTRIBUTING.md";
  const auto folder = std::filesystem::path(document.path).parent_path();
  Complaints out;
  bool in_block = false;
  const auto lines = lines_of(document);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string& line = lines[i];
    if (line.starts_with("```")) in_block = !in_block;
    const auto each = [&](const std::regex& what, const auto& act) {
      for (std::sregex_iterator m(line.begin(), line.end(), what), end; m != end; ++m) act((*m)[1]);
    };
    each(link, [&](const std::string& target) {
      const std::string path = (folder / target).lexically_normal();
      if (target.find(':') == std::string::npos && !names.has(path))
        out.push_back(at(document, i) + not_there(path));
    });
    const auto check = [&](const std::string& text) {
      for (std::string word : words_of(text)) {
        const std::size_t slash = word.find('/');
        const bool is_folder = word.ends_with('/');
        const bool in_folder = slash != std::string::npos && names.has(word.substr(0, slash));
        if (is_folder) word.pop_back();
        if ((has_source_ending(word) || in_folder || (is_map && is_folder)) && !names.has(word))
          out.push_back(at(document, i) + not_there(word));
      }
    };
    if (in_block)
      check(line);
    else
      each(quoted, check);
  }
  return out;
}

Complaints comments_name_what_exists(const SourceFile& file, const Names& names) {
  Complaints out;
  const auto lines = lines_of(file);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::size_t comment = lines[i].find("//");
    if (comment == std::string::npos || lines[i].find('"') < comment) continue;
    for (const std::string& word : words_of(lines[i].substr(comment + 2)))
      if (has_source_ending(word) && !names.has(word)) out.push_back(at(file, i) + not_there(word));
  }
  return out;
}

Complaints folders_are_on_the_map(const SourceFile& map, const std::vector<SourceFile>& files) {
  std::set<std::string> folders;
  for (const SourceFile& file : files)
    if (file.in_src()) folders.insert(std::filesystem::path(file.name()).parent_path());
  Complaints out;
  for (const std::string& folder : folders)
    if (map.text.find("`" + folder + "/`") == std::string::npos &&
        map.text.find("`" + std::filesystem::path(folder).filename().string() + "/`") ==
            std::string::npos)
      out.push_back(map.path + ": does not name `" + folder + "/`");
  return out;
}

}  // namespace lockstep
