// A configuration survives run.json, and what is wrong in it is named.
#include "train/config.h"

#include <gmock/gmock.h>

#include "core/error.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Config, SurvivesJson) {
  TrainConfig config;
  config.workers = 7;
  config.strategy = "local-sgd:period=8";
  config.faults = {"kill:rank=1,after=3"};
  config.warmup_epochs = 0.5;
  config.audit = true;
  EXPECT_EQ(config_from(nlohmann::json::parse(to_json(config).dump())), config);
}

TEST(Config, KeepsTheBaseWhereNothingIsSaid) {
  TrainConfig base;
  base.seed = 9;
  const TrainConfig config = config_from({{"workers", 3}}, base);
  EXPECT_EQ(config.workers, 3);
  EXPECT_EQ(config.seed, 9u);
}

TEST(Config, NamesAnUnknownSetting) {
  EXPECT_THAT(
      [] {
        config_from({{"worker", 3}});
      },
      ThrowsMessage<UsageError>(HasSubstr("did you mean 'workers'")));
}

TEST(Config, NamesASettingOfTheWrongType) {
  EXPECT_THAT(
      [] {
        config_from({{"workers", "three"}});
      },
      ThrowsMessage<UsageError>(HasSubstr("workers can't be \"three\"")));
}

void expect_refused(const std::function<void(TrainConfig&)>& change, const std::string& why) {
  TrainConfig config;
  change(config);
  EXPECT_THAT(
      [&] {
        complete(config);
        check(config);
      },
      ThrowsMessage<UsageError>(HasSubstr(why)));
}

TEST(Check, RefusesWhatCannotBe) {
  expect_refused([](auto& c) { c.workers = 0; }, "--workers must be from 1");
  expect_refused([](auto& c) { c.strategy = "all-reduse"; }, "did you mean 'all-reduce'");
  expect_refused([](auto& c) { c.collective = "rng"; }, "did you mean 'ring'");
  expect_refused([](auto& c) { c.optimizer = "sgd:rate=1"; }, "rate");
  expect_refused([](auto& c) { c.lr_schedule = "linear"; }, "linear");
  expect_refused([](auto& c) { c.split = "clas"; }, "did you mean 'class'");
  expect_refused([](auto& c) { c.batch = 0; }, "--batch");
  expect_refused([](auto& c) { c.global_batch = 1; }, "--global-batch 1");
  expect_refused([](auto& c) { c.target_accuracy = 98; }, "--target-accuracy");
  expect_refused([](auto& c) { c.cluster = "sim:numerics=off"; }, "step=100ms");
  expect_refused(
      [](auto& c) {
        c.cluster = "sim:numerics=off,step=1s";
        c.audit = true;
      },
      "--audit");
  expect_refused([](auto& c) { c.faults = {"kill:rank=5,after=1"}; }, "ranks are 0 to 1");
}

TEST(Check, RefusesOptimisersThatAStrategyWouldNotFollow) {
  const auto with = [](const char* strategy, int servers, const char* optimiser) {
    return [=](auto& c) {
      c.strategy = strategy;
      c.servers = servers;
      c.optimizer = optimiser;
    };
  };
  for (const char* strategy : {"parameter-server", "asp", "downpour"})
    expect_refused(with(strategy, 2, "lars:lr=1"), "servers steps its own part of the parameters");
  expect_refused(with("easgd:momentum=0.9", 1, "adam:lr=1"), "EAMSGD");
  expect_refused(with("easgd:momentum=0.9", 1, "sgd:lr=1,weight_decay=0.1"), "EAMSGD");
  TrainConfig config;
  with("easgd:momentum=0.9", 1, "sgd:lr=1,momentum=0.5")(config);
  EXPECT_NO_THROW(check(config));
  for (const char* strategy : {"ssp", "easgd"}) {
    with(strategy, 2, "lars:lr=1")(config);
    EXPECT_NO_THROW(check(config)) << strategy;
  }
}

TEST(Check, RefusesToScaleARateThatFitsAlready) {
  const auto linear = [](const char* strategy, std::uint64_t global_batch) {
    return [=](auto& c) {
      c.lr_scaling = "linear";
      c.strategy = strategy;
      c.global_batch = global_batch;
    };
  };
  expect_refused(linear("all-reduce", 64), "--global-batch 64 keeps the same");
  for (const char* strategy : {"asp", "ssp", "downpour", "hogwild"})
    expect_refused(linear(strategy, 0), "adds up the steps of all workers");
  for (const char* strategy : {"all-reduce", "d-psgd", "easgd", "gossip", "epoch-average"}) {
    TrainConfig config;
    linear(strategy, 0)(config);
    complete(config);
    EXPECT_NO_THROW(check(config)) << strategy;
  }
}

TEST(Check, HogwildExchangesNothing) {
  const auto with = [](const std::function<void(TrainConfig&)>& change) {
    return [=](TrainConfig& c) {
      c.strategy = "hogwild";
      change(c);
    };
  };
  expect_refused(with([](auto& c) { c.audit = true; }), "no exchanges to prove");
  expect_refused(with([](auto& c) { c.transport = "ucx"; }), "share memory");
  expect_refused(with([](auto& c) { c.shape = "bandwidth=1Gbps"; }), "send nothing");
}

TEST(Check, ServersBelongToStrategiesThatHaveThem) {
  TrainConfig config;
  for (const auto& [strategy, servers] :
       {std::pair{"parameter-server", 1}, {"bsp", 1}, {"all-reduce", 0}}) {
    config.servers = -1;
    config.strategy = strategy;
    complete(config);
    EXPECT_EQ(config.servers, servers) << strategy;
  }
  expect_refused([](auto& c) { c.servers = 1; }, "has no servers");
  const auto none = [](auto& c) {
    c.strategy = "parameter-server";
    c.servers = 0;
  };
  expect_refused(none, "--servers 0");
}

}  // namespace
}  // namespace lockstep
