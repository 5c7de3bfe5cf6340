// lockstep list strategies
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "collectives/all_reduce.h"
#include "compression/registry.h"
#include "core/error.h"
#include "core/names.h"
#include "data/open.h"
#include "data/split.h"
#include "models/registry.h"
#include "replica/optimiser.h"
#include "replica/schedule.h"
#include "strategies/registry.h"
#include "train/cluster_spec.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

// One name with all there is to say about it.
Json entry(std::string_view name, std::string_view description, std::string_view parameters = {},
           std::string_view alias = {}) {
  Json json = {{"name", name}, {"description", description}};
  if (!parameters.empty()) json["parameters"] = parameters;
  if (!alias.empty()) json["aliases"] = {alias};
  return json;
}

// Of a row whose parameters have descriptions, and may have aliases.
template <class Row>
Json described_entry(const Row& row) {
  std::string keys;
  Json texts = Json::object();
  for (const auto& p : row.parameters) {
    keys += fmt::format("{}{}={}", keys.empty() ? "" : ",", p.key, p.standard);
    std::string text(p.description);
    if constexpr (requires { p.alias; })
      if (!p.alias.empty()) text += fmt::format(" (also {})", p.alias);
    texts[std::string(p.key)] = text;
  }
  Json json = entry(row.name, row.description, keys, row.alias);
  if (!texts.empty()) json["parameter_descriptions"] = texts;
  return json;
}

std::vector<Json> entries_of(const std::string& what) {
  std::vector<Json> all;
  if (what == "strategies")
    for (const auto& row : strategies()) all.push_back(described_entry(row));
  if (what == "collectives")
    for (const auto& row : all_reduces()) all.push_back(entry(row.name, row.description));
  if (what == "compressors")
    for (const auto& row : compressors()) all.push_back(described_entry(row));
  if (what == "models")
    for (const auto& row : models()) all.push_back(entry(row.name, row.description, row.defaults));
  if (what == "datasets")
    for (const auto& row : datasets()) all.push_back(entry(row.name, row.description, row.keys));
  if (what == "splits")
    for (const auto& row : splits()) all.push_back(entry(row.name, row.description, row.keys));
  if (what == "optimizers")
    for (const auto& row : optimisers())
      all.push_back(entry(row.name, row.description, row.defaults));
  if (what == "schedules")
    for (const auto& row : schedules())
      all.push_back(entry(row.name, row.description, row.defaults));
  if (what == "clusters")
    for (const auto& row : clusters())
      all.push_back(entry(row.name, row.description, row.parameters));
  return all;
}

void print(const Json& json) {
  std::string description = json["description"];
  if (json.contains("aliases"))
    description += fmt::format(" (also {})", json["aliases"][0].get<std::string>());
  fmt::print("{:<18} {}\n", json["name"].get<std::string>(), description);
  if (json.contains("parameter_descriptions")) {
    std::string keys = json["parameters"];
    for (const auto& [key, text] : json["parameter_descriptions"].items()) {
      const auto at = ("," + keys).find("," + key + "=");
      const std::string value = keys.substr(at, keys.find(',', at) - at);
      fmt::print("{:<18}   {:<24} {}\n", "", value, text.get<std::string>());
    }
  } else if (json.contains("parameters")) {
    fmt::print("{:<18}   {}\n", "", json["parameters"].get<std::string>());
  }
}

class ListCommand : public Command {
 public:
  explicit ListCommand(CLI::App& application)
      : Command(application.add_subcommand("list", "Names that flags take, with parameters")) {
    command_
        ->add_option("what", what_,
                     "strategies, collectives, compressors, models, datasets, splits, optimizers, "
                     "schedules or clusters")
        ->required();
    command_->add_flag("--json", json_, "JSON lines");
    command_->footer("\nExamples:\n  lockstep list strategies\n  lockstep list models --json");
  }

  int run() const override {
    index_named("list", what_, lists());
    std::vector<Json> all = entries_of(what_);
    if (what_ == "models") all.push_back(entry("FILE.pt", "any TorchScript file"));
    for (const Json& json : all) {
      if (json_)
        fmt::print("{}\n", json.dump());
      else
        print(json);
    }
    return 0;
  }

 private:
  std::string what_;
  bool json_ = false;
};

}  // namespace

std::span<const std::string_view> lists() {
  static constexpr std::string_view kLists[] = {"strategies", "collectives", "compressors",
                                                "models",     "datasets",    "splits",
                                                "optimizers", "schedules",   "clusters"};
  return kLists;
}

std::vector<std::string> names_in(const std::string& list) {
  std::vector<std::string> names;
  for (const Json& json : entries_of(list)) names.push_back(json["name"]);
  return names;
}

std::unique_ptr<Command> add_list(CLI::App& application) {
  return std::make_unique<ListCommand>(application);
}

}  // namespace lockstep
