// What compression and overlap cost and save: by bucket and in all, on processes and in simulation,
// where coding takes as long as a profile says.
#include <gmock/gmock.h>

#include "compression/registry.h"
#include "core/whole_file.h"
#include "train/runs.h"

namespace lockstep::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;
using Json = nlohmann::ordered_json;

constexpr std::size_t kNumbers = 12730;  // of small_config()'s network
constexpr double kEncode = 1e-7, kDecode = 3e-7;

class Accounting : public ::testing::Test {
 protected:
  Accounting() {
    config_ = small_config();
    config_.workers = 2;
    config_.steps = 5;
    config_.compress = "fp16";
    Profile profile{"any", 1, 1, 0.1, 0.2, 0};
    for (const std::string spec : {"fp16", "topk:ratio=0.05", "powersgd"})
      profile.coding.push_back({full_compressor_spec(spec), 2, kEncode, kDecode});
    write_whole(profile_, to_json(profile).dump());
  }
  // Simulated in a process of its own.
  Json simulated(const std::string& more, const std::string& overlap = "none") {
    TrainConfig config = config_;
    config.cluster = "sim:step=10ms" + more;
    if (more.find("bandwidth") == more.npos) config.cluster += ",bandwidth=100Mbps";
    config.overlap = overlap;
    return Json::parse(in_a_process([&] { return summary_in("simulated", config).dump(); }));
  }
  std::string charged() const { return ",coding=" + profile_; }

  const Folder folder_;
  const std::string profile_ = folder_ / "profile.json";
  TrainConfig config_;
};

double seconds(const Json& run) { return run.at("train_seconds").get<double>(); }

TEST_F(Accounting, CodingTakesVirtualTimeAsTheProfileSays) {
  const Json free = simulated(""), run = simulated(charged());
  EXPECT_NEAR(seconds(run) - seconds(free), 5 * kNumbers * (kEncode + kDecode), 1e-9);
  const Json& c = run.at("compression");
  EXPECT_NEAR(c.at("encode_seconds").get<double>(), 2 * 5 * kNumbers * kEncode, 1e-9);
  EXPECT_NEAR(c.at("decode_seconds").get<double>(), 2 * 5 * kNumbers * kDecode, 1e-9);
  EXPECT_EQ(free.at("compression").at("encode_seconds"), 0);
  EXPECT_TRUE(free.at("compression").at("break_even_bits_per_second").is_null());
  EXPECT_EQ(run.at("model_sha256"), free.at("model_sha256"));
}

TEST_F(Accounting, ASimulationRepeatsAndNeedsNoNumbers) {
  const Json first = simulated(charged(), "wfbp"), second = simulated(charged(), "wfbp");
  const Json hollow = simulated(charged() + ",numerics=off", "wfbp");
  EXPECT_EQ(seconds(first), seconds(second));
  EXPECT_EQ(first.at("buckets_detail"), second.at("buckets_detail"));
  EXPECT_NEAR(seconds(first), seconds(hollow), 1e-9);
  const Json &buckets = first.at("buckets_detail"), &of_sizes = hollow.at("buckets_detail");
  ASSERT_EQ(buckets.size(), of_sizes.size());
  for (std::size_t b = 0; b < buckets.size(); ++b)
    for (const char* key : {"encode_seconds", "exchange_seconds", "decode_seconds",
                            "hidden_seconds", "bytes_before", "bytes_after"})
      EXPECT_NEAR(buckets[b].at(key).get<double>(), of_sizes[b].at(key).get<double>(), 1e-9) << key;
}

TEST_F(Accounting, ASlowRankCodesSlowlyToo) {
  const Json run = simulated(charged() + ",slow=rank1:3.0");
  const auto encode = [&](int r) {
    return run.at("workers_detail")[r].at("encode_seconds").get<double>();
  };
  EXPECT_NEAR(encode(1), 3 * encode(0), 1e-9);
}

TEST_F(Accounting, BucketsAddUpToTheRun) {
  config_.bucket_mib = 0;
  for (const std::string compress : {"fp16", "topk:ratio=0.05", "powersgd"}) {
    config_.compress = compress;
    const Json run = simulated(charged(), "wfbp");
    const Json& buckets = run.at("buckets_detail");
    ASSERT_EQ(buckets.size(), 4u) << compress;
    const auto sum = [&](const char* key) {
      double all = 0;
      for (const Json& bucket : buckets) all += bucket.at(key).get<double>();
      return all;
    };
    EXPECT_EQ(sum("numbers"), kNumbers);
    for (const char* key : {"encode_seconds", "decode_seconds", "bytes_before", "bytes_after"})
      EXPECT_NEAR(sum(key), run.at("compression").at(key).get<double>(), 1e-9) << compress << key;
    EXPECT_NEAR(sum("hidden_seconds"), run.at("overlap").at("hidden_seconds").get<double>(), 1e-9);
    EXPECT_GT(sum("hidden_seconds"), 0);
    EXPECT_LE(sum("hidden_seconds"),
              sum("encode_seconds") + sum("exchange_seconds") + sum("decode_seconds") + 1e-9);
    double sent = 0;
    for (const Json& rank : run.at("workers_detail")) sent += rank.at("bytes_sent").get<double>();
    EXPECT_EQ(sum("bytes_after"), sent) << compress;
  }
}

TEST_F(Accounting, BucketsOfNumbersAsTheyAreSaveNothing) {
  config_.compress.clear();
  const Json run = simulated("", "wfbp");
  EXPECT_TRUE(run.at("compression").is_null());
  for (const Json& bucket : run.at("buckets_detail")) {
    EXPECT_GT(bucket.at("bytes_before"), 0);
    EXPECT_EQ(bucket.at("bytes_before"), bucket.at("bytes_after"));
    EXPECT_GT(bucket.at("exchange_seconds"), 0);
    EXPECT_TRUE(bucket.at("break_even_bits_per_second").is_null());
  }
}

// At the bandwidth at which it stops paying, a step takes as long with it as without.
TEST_F(Accounting, AtBreakEvenAStepTakesAsLongWithoutCompression) {
  const Json c = simulated(charged()).at("compression");
  const double even = c.at("break_even_bits_per_second");
  EXPECT_EQ(c.at("link_bits_per_second"), 1e8);
  EXPECT_EQ(c.at("link_is_measured"), false);
  for (const std::string overlap : {"none", "wfbp"}) {
    const auto step_at = [&](const std::string& compress, double bits_per_s) {
      config_.compress = compress;
      config_.bucket_mib = 0;
      return seconds(simulated(fmt::format("{},latency=0s,bandwidth={:.0f}bps",
                                           compress.empty() ? "" : charged(), bits_per_s),
                               overlap));
    };
    EXPECT_NEAR(step_at("fp16", even) / step_at("", even), 1, 1e-3) << overlap;
    EXPECT_LT(step_at("fp16", even / 8), 0.9999 * step_at("", even / 8)) << overlap;
    EXPECT_GT(step_at("fp16", even * 8), 1.0001 * step_at("", even * 8)) << overlap;
  }
}

TEST_F(Accounting, PushesToServersAreChargedToo) {
  config_.strategy = "asp";
  config_.compress = "topk:ratio=0.05";
  const Json run = simulated(charged());
  EXPECT_NEAR(run.at("compression").at("encode_seconds").get<double>(), 2 * 5 * kNumbers * kEncode,
              1e-9);
  EXPECT_NEAR(run.at("workers_detail")[2].at("decode_seconds").get<double>(),
              2 * 5 * kNumbers * kDecode, 1e-9);
}

TEST_F(Accounting, AProfileWithoutThatCompressorIsRefused) {
  config_.compress = "bf16";
  config_.cluster = "sim:step=10ms" + charged();
  EXPECT_THAT([&] { Experiment experiment(config_); },
              ThrowsMessage<UsageError>(HasSubstr("has no rates of bf16")));
}

TEST_F(Accounting, ARunSaysThatCodingIsFree) {
  const auto free = HasSubstr("take no virtual time");
  config_.cluster = "sim:step=10ms";
  EXPECT_THAT(Experiment(config_).notices(), Contains(free));
  config_.cluster += charged();
  EXPECT_THAT(Experiment(config_).notices(), Not(Contains(free)));
  config_.cluster = "sim:profile=" + profile_;
  EXPECT_THAT(Experiment(config_).notices(), Not(Contains(free)));
  config_.cluster = "local";
  EXPECT_THAT(Experiment(config_).notices(), Not(Contains(free)));
}

TEST_F(Accounting, ARunOnProcessesMeasuresWhatASimulationNeeds) {
  const WorkerOutcome outcome = train_in("shm", config_);
  ASSERT_EQ(outcome.profile.coding.size(), 1u);
  EXPECT_EQ(outcome.profile.coding[0].compressor, full_compressor_spec("fp16"));
  EXPECT_GT(outcome.profile.coding[0].encode_s_per_number, 0);
  EXPECT_GT(outcome.profile.coding[0].decode_s_per_number, 0);
  const Json run = summary(config_, outcome.result);
  EXPECT_EQ(run.at("workers_detail")[0].at("numbers_encoded"), 5 * kNumbers);
}

// Of two ranks that communicated for 3 s each, coding among it, and for 1 s beside backward.
TEST_F(Accounting, WhereNoSettingSaysWhatALinkCarriesItIsMeasured) {
  TrainResult result;
  for (int r = 0; r < 2; ++r) {
    RankReport report;
    report.rank = r;
    report.spent = {.communicate_s = 3, .hidden_s = 1};
    report.coding = {.encode_s = 1.5, .decode_s = 0.5, .plain_bytes = 3000, .sent_bytes = 1000};
    report.exchanged.bytes_sent = 1000;
    result.ranks.push_back(to_json(report));
  }
  const Json c = summary(config_, result).at("compression");
  EXPECT_EQ(c.at("link_is_measured"), true);
  EXPECT_EQ(c.at("link_bits_per_second"), 8 * 1000 / 2.0);
  EXPECT_EQ(c.at("break_even_bits_per_second"), 8 * 2000 / 2.0);
  result.link_bytes_per_s = 10;
  EXPECT_EQ(summary(config_, result).at("compression").at("link_bits_per_second"), 80);
}

}  // namespace
}  // namespace lockstep::testing
