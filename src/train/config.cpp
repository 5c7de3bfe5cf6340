#include "train/config.h"

#include <algorithm>

#include "collectives/all_reduce.h"
#include "core/error.h"
#include "core/names.h"
#include "strategies/registry.h"

namespace lockstep {
namespace {

// Every field once, by its flag's name: what is written is what is read.
template <class Config, class Visit>
void each_field(Config& c, const Visit& visit) {
  visit("workers", c.workers);
  visit("servers", c.servers);
  visit("server_placement", c.server_placement);
  visit("threads", c.threads);
  visit("cluster", c.cluster);
  visit("transport", c.transport);
  visit("strategy", c.strategy);
  visit("collective", c.collective);
  visit("model", c.model);
  visit("data", c.data);
  visit("limit", c.limit);
  visit("test_limit", c.test_limit);
  visit("split", c.split);
  visit("reshard", c.reshard);
  visit("balanced_batches", c.balanced_batches);
  visit("batch", c.batch);
  visit("global_batch", c.global_batch);
  visit("epochs", c.epochs);
  visit("steps", c.steps);
  visit("samples", c.samples);
  visit("seconds", c.seconds);
  visit("optimizer", c.optimizer);
  visit("lr_schedule", c.lr_schedule);
  visit("lr_scaling", c.lr_scaling);
  visit("warmup_epochs", c.warmup_epochs);
  visit("seed", c.seed);
  visit("target_accuracy", c.target_accuracy);
  visit("evaluate_every", c.evaluate_every);
  visit("audit", c.audit);
  visit("checkpoint_every", c.checkpoint_every);
  visit("keep", c.keep);
  visit("resume", c.resume);
  visit("faults", c.faults);
  visit("shape", c.shape);
  visit("profile_out", c.profile_out);
  visit("sample_every", c.sample_every);
  visit("timeline", c.timeline);
  visit("tensorboard", c.tensorboard);
  visit("out", c.out);
  visit("cache", c.cache);
}

}  // namespace

nlohmann::ordered_json to_json(const TrainConfig& config) {
  nlohmann::ordered_json json;
  each_field(config, [&](const char* name, const auto& value) { json[name] = value; });
  return json;
}

TrainConfig config_from(const nlohmann::json& json, TrainConfig base) {
  if (!json.is_object()) throw UsageError("a configuration must be a table of flags and values");
  std::vector<std::string_view> names;
  each_field(base, [&](const char* name, auto& value) {
    names.emplace_back(name);
    const auto found = json.find(name);
    if (found == json.end()) return;
    try {
      found->get_to(value);
    } catch (const nlohmann::json::exception&) {
      throw UsageError(fmt::format("the configuration's {} can't be {}", name, found->dump()));
    }
  });
  for (const auto& [name, value] : json.items())
    index_named("setting", name, names);
  return base;
}

bool TrainConfig::servers_within_workers() const {
  return server_placement == "colocated" && !strategy_named(strategy).goes_apart();
}

}  // namespace lockstep
