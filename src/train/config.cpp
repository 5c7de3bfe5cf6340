#include "train/config.h"

#include <algorithm>

#include "collectives/all_reduce.h"
#include "core/error.h"
#include "core/names.h"
#include "strategies/registry.h"

namespace lockstep {
namespace {

// Takes one field, if the table has it.
template <class T>
void read_field(const nlohmann::json& json, const char* name, T& value) {
  const auto found = json.find(name);
  if (found == json.end()) return;
  try {
    found->get_to(value);
  } catch (const nlohmann::json::exception&) {
    throw UsageError(fmt::format("the configuration's {} can't be {}", name, found->dump()));
  }
}

}  // namespace

std::span<const Setting> settings() {
  constexpr bool stays = false, changes = true;
  static constexpr Setting kSettings[] = {
#define SETTING(type, name, standard, flags, resumed, text) {#name, flags, text, resumed},
#include "train/settings.def"
#undef SETTING
  };
  return kSettings;
}

nlohmann::ordered_json to_json(const TrainConfig& config) {
  nlohmann::ordered_json json;
#define SETTING(type, name, standard, flags, resumed, text) json[#name] = config.name;
#include "train/settings.def"
#undef SETTING
  return json;
}

TrainConfig config_from(const nlohmann::json& json, TrainConfig base) {
  if (!json.is_object()) throw UsageError("a configuration must be a table of flags and values");
#define SETTING(type, name, standard, flags, resumed, text) read_field(json, #name, base.name);
#include "train/settings.def"
#undef SETTING
  for (const auto& [name, value] : json.items()) row_named("setting", name, settings());
  return base;
}

const StrategyRow& TrainConfig::strategy_row() const {
  return strategy_named(strategy, own_strategy);
}

bool TrainConfig::servers_within_workers() const {
  return server_placement == "colocated" && !strategy_row().goes_apart();
}

}  // namespace lockstep
