#include "study/study_file.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>

#include "core/error.h"
#include "core/names.h"
#include "core/whole_file.h"
#include "study/toml_text.h"

namespace lockstep::study {
namespace {

using Keys = std::vector<std::string_view>;

std::string kind_of(const toml::node& node) {
  std::ostringstream text;
  text << node.type();
  return text.str();
}

class Reader {
 public:
  explicit Reader(StudyFile& file) : file_(file) {}

  // The whole file, or its [quick].
  void read(const toml::table& table, bool outermost) {
    Keys keys{"title", "question", "about", "command", "baseline", "minutes", "refused",
              "base",  "variant",  "grid",  "repeat",  "tune",     "twin"};
    if (outermost) keys.push_back("quick");
    prefix_ = outermost ? "" : "quick.";
    only(table, keys, outermost ? "the file" : "[quick]");
    text(table, "title", file_.title);
    text(table, "question", file_.question);
    text(table, "about", file_.about);
    text(table, "command", file_.command);
    text(table, "baseline", file_.baseline);
    if (const auto* node = table.get("minutes")) file_.minutes = number(*node, "minutes");
    if (const auto* node = table.get("refused")) refused(*node);
    if (const auto* t = sub(table, "base")) file_.base = flags(*t, "base", file_.base);
    if (const auto* node = table.get("variant")) variants(*node);
    if (const auto* t = sub(table, "grid")) axes(*t, "grid", {}, file_.grid);
    if (const auto* t = sub(table, "repeat")) seeds(*t, "repeat", file_.seeds);
    if (const auto* t = sub(table, "tune")) tune(*t);
    if (const auto* t = sub(table, "twin")) twin(*t);
  }

 private:
  [[noreturn]] void fail(const toml::node& node, const std::string& what) const {
    throw UsageError(fmt::format("{}:{}: {}", file_.path, node.source().begin.line, what));
  }

  void only(const toml::table& table, const Keys& keys, const std::string& where) const {
    for (const auto& [key, node] : table) try {
        index_named("key in " + where, key.str(), keys);
      } catch (const UsageError& e) {
        fail(node, e.what());
      }
  }

  const toml::table* sub(const toml::table& table, std::string_view key) const {
    const toml::node* node = table.get(key);
    if (node && !node->is_table())
      fail(*node,
           fmt::format("{0} must be a table, [{1}{0}], not a {2}", key, prefix_, kind_of(*node)));
    return node ? node->as_table() : nullptr;
  }

  void text(const toml::table& table, std::string_view key, std::string& into) const {
    const toml::node* node = table.get(key);
    if (!node) return;
    if (!node->is_string())
      fail(*node, fmt::format("{} must be text in quotes, not a {}", key, kind_of(*node)));
    into = node->as_string()->get();
    while (into.ends_with('\n')) into.pop_back();
  }

  double number(const toml::node& node, std::string_view key) const {
    const auto value = node.value<double>();
    if (!value || !(*value >= 0))
      fail(node, fmt::format("{} must be a number that is not negative", key));
    return *value;
  }

  void refused(const toml::node& node) {
    if (node.value<std::string>() != "shown")
      fail(node, "refused must be \"shown\"; without it, what the command refuses is a mistake");
    file_.shows_refused = true;
  }

  std::uint64_t seed(const toml::node& node) const {
    const auto value = node.value_exact<std::int64_t>();
    if (!value || *value < 0) fail(node, "a seed is a whole number that is not negative");
    return static_cast<std::uint64_t>(*value);
  }

  // One value as the command line has it.
  std::string scalar(const toml::node& node, std::string_view key) const {
    if (const auto* s = node.as_string()) return s->get();
    if (const auto* i = node.as_integer()) return std::to_string(i->get());
    if (const auto* f = node.as_floating_point()) return fmt::format("{}", f->get());
    fail(node, fmt::format("{} must be text, a number, true or false, or a list of those, not a {}",
                           key, kind_of(node)));
  }

  Given given(const toml::node& node, std::string_view key) const {
    if (const auto* b = node.as_boolean()) return {{}, b->get()};
    const auto* list = node.as_array();
    if (!list) return {{scalar(node, key)}};
    Given all;
    for (const toml::node& one : *list) all.values.push_back(scalar(one, key));
    all.on = !all.values.empty();
    return all;
  }

  // Over those of `base`.
  Flags flags(const toml::table& table, const std::string& where, Flags base,
              const Keys& but = {}) {
    for (const auto& [key, node] : table) {
      if (std::ranges::find(but, key.str()) != but.end()) continue;
      note(where, key.str(), node);
      base[std::string(key.str())] = given(node, key.str());
    }
    return base;
  }

  void variants(const toml::node& node) {
    const auto* list = node.as_array();
    if (!list || !list->is_array_of_tables())
      fail(node, fmt::format("each variant is a table of its own, [[{}variant]]", prefix_));
    file_.variants.clear();
    std::set<std::string> names;
    for (const toml::node& one : *list) {
      const toml::table& table = *one.as_table();
      std::string name;
      text(table, "name", name);
      if (name.empty()) fail(one, "a variant needs a name, e.g. name = \"ring\"");
      if (!names.insert(name).second)
        fail(one, fmt::format("there are two variants called '{}': give each its own name", name));
      file_.lines["variant." + name] = line(one);
      file_.variants.push_back({name, flags(table, "variant." + name, {}, {"name"})});
    }
  }

  // In the order of the file, which toml++ does not keep.
  void axes(const toml::table& table, const std::string& where, const Keys& but,
            std::vector<Axis>& into) {
    std::vector<std::pair<toml::source_position, Axis>> found;
    for (const auto& [key, node] : table) {
      if (std::ranges::find(but, key.str()) != but.end()) continue;
      note(where, key.str(), node);
      Axis axis{std::string(key.str()), {}};
      if (const auto* list = node.as_array())
        for (const toml::node& one : *list) axis.values.push_back(given(one, key.str()));
      else
        axis.values.push_back(given(node, key.str()));
      for (std::size_t i = 0; i < axis.values.size(); ++i)
        if (std::find(axis.values.begin(), axis.values.begin() + i, axis.values[i]) !=
            axis.values.begin() + i)
          fail(node, fmt::format("{} has {} twice", axis.name, axis.values[i].text()));
      found.emplace_back(node.source().begin, std::move(axis));
    }
    std::ranges::sort(found, {},
                      [](const auto& f) { return std::pair(f.first.line, f.first.column); });
    for (auto& [where_it_is, axis] : found) {
      std::erase_if(into,
                    [&](const Axis& a) { return a.name == axis.name && axis.values.empty(); });
      const auto same = std::ranges::find(into, axis.name, &Axis::name);
      if (same != into.end())
        *same = axis;
      else if (!axis.values.empty())
        into.push_back(axis);
    }
  }

  void seeds(const toml::table& table, const std::string& where,
             std::vector<std::uint64_t>& into) const {
    only(table, {"seeds", "times"}, fmt::format("[{}{}]", prefix_, where));
    const auto *list = table.get("seeds"), *times = table.get("times");
    if (list && times) fail(*times, "seeds and times both say how often: leave one out");
    if (list) {
      if (!list->is_array() || list->as_array()->empty())
        fail(*list, "seeds is a list of whole numbers, e.g. seeds = [1, 2, 3]");
      into.clear();
      for (const toml::node& one : *list->as_array()) into.push_back(seed(one));
      for (std::size_t i = 0; i < into.size(); ++i)
        if (std::ranges::count(into, into[i]) > 1)
          fail(*list, fmt::format("seed {} is there twice", into[i]));
    }
    if (!times) return;
    const std::uint64_t count = seed(*times);
    if (count < 1 || count > 10000) fail(*times, "times is a whole number from 1 to 10000");
    into.clear();
    for (std::uint64_t i = 1; i <= count; ++i) into.push_back(i);
  }

  void tune(const toml::table& table) {
    if (const auto* node = table.get("seed")) {
      note("tune", "seed", *node);
      file_.tune_seed = seed(*node);
    }
    axes(table, "tune", {"seed"}, file_.tune);
  }

  void twin(const toml::table& table) {
    if (file_.twin.empty()) file_.twin.emplace_back();
    Twin& twin = file_.twin[0];
    twin.flags = flags(table, "twin", twin.flags, {"grid", "repeat"});
    if (const auto* t = sub(table, "grid")) axes(*t, "twin.grid", {}, twin.grid);
    if (const auto* t = sub(table, "repeat")) seeds(*t, "twin.repeat", twin.seeds);
  }

  static int line(const toml::node& node) { return static_cast<int>(node.source().begin.line); }
  void note(const std::string& where, std::string_view key, const toml::node& node) {
    file_.lines[fmt::format("{}.{}", where, key)] = line(node);
  }

  StudyFile& file_;
  std::string prefix_;
};

void check_whole(const StudyFile& file) {
  if (file.title.empty())
    throw UsageError(file.path + ": a study needs a title, e.g. title = \"Averaging on MNIST\"");
  if (std::ranges::find(file.seeds, file.tune_seed) != file.seeds.end() && !file.tune.empty())
    throw UsageError(fmt::format(
        "{}[tune] needs a seed that [repeat] has not, or what is tuned on is what is compared: {}",
        file.at("tune.seed"), file.tune_seed));
  if (file.baseline.empty()) return;
  Keys names;
  for (const NamedFlags& variant : file.variants) names.push_back(variant.name);
  if (std::ranges::find(names, file.baseline) == names.end())
    throw UsageError(fmt::format("{}: the baseline '{}' is no variant's name: {}", file.path,
                                 file.baseline, fmt::join(names, ", ")));
}

}  // namespace

std::string StudyFile::at(const std::string& key) const {
  const auto found = lines.find(key);
  return found == lines.end() ? path + ": " : fmt::format("{}:{}: ", path, found->second);
}

StudyFile parse_study(const std::string& text, const std::string& path, bool quick) {
  const toml::table table = toml_in(text, path);
  StudyFile file;
  file.path = path;
  Reader(file).read(table, true);
  StudyFile small = file;
  small.quick = true;
  if (const toml::node* node = table.get("quick")) {
    if (!node->is_table())
      throw UsageError(fmt::format("{}:{}: quick must be a table, e.g. [quick.base]", path,
                                   node->source().begin.line));
    Reader(small).read(*node->as_table(), false);
  } else if (quick) {
    throw UsageError(fmt::format("{} has no [quick]: run it without --quick", path));
  }
  check_whole(file);
  check_whole(small);
  return quick ? small : file;
}

StudyFile read_study(const std::string& path, bool quick) {
  return parse_study(read_whole(path), path, quick);
}

}  // namespace lockstep::study
