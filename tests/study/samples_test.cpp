// Resource samples: totals become rates, and thinning loses nothing between two points.
#include <gmock/gmock.h>

#include "data/files.h"
#include "study/pretended.h"
#include "study/run_record.h"

namespace lockstep::study {
namespace {

using ::testing::ElementsAre;

std::string sample(double t, std::uint64_t sent, double cpu) {
  return nlohmann::ordered_json{
             {"t", t},
             {"cpu_user_percent", cpu},
             {"cpu_system_percent", 10.0},
             {"private_bytes", 1000},
             {"disk_written_bytes", 0},
             {"network", {{"exchange", {{"bytes_sent", sent}}}, {"other", {{"bytes_sent", 0}}}}},
             {"interface", nullptr},
             {"cgroup", nullptr}}
             .dump() +
         "\n";
}

class Samples : public ::testing::Test {
 protected:
  nlohmann::ordered_json of(const std::string& lines, std::size_t points = 120) {
    testing::write_file(folder_ / "worker-0.jsonl", lines);
    return samples_of(folder_.text(), points);
  }
  const std::string header_ = R"({"kind":"samples","rank":0,"role":"server","host":"h","pid":1})"
                              "\n";
  const ::lockstep::testing::Folder folder_;
};

TEST_F(Samples, TotalsBecomeRates) {
  const auto ranks = of(header_ + sample(0.5, 1000, 50) + sample(1.0, 4000, 60));
  ASSERT_EQ(ranks.size(), 1u);
  EXPECT_EQ(ranks[0]["role"], "server");
  EXPECT_THAT(ranks[0]["t"], ElementsAre(0.5, 1.0));
  EXPECT_THAT(ranks[0]["network_sent_bytes_per_second"], ElementsAre(2000, 6000));
  EXPECT_THAT(ranks[0]["cpu_percent"], ElementsAre(60, 70));
  EXPECT_FALSE(ranks[0].contains("interface_sent_bytes_per_second")) << "nobody has one";
}

TEST_F(Samples, ThinningKeepsTheTotal) {
  std::string lines = header_;
  for (int i = 1; i <= 1000; ++i) lines += sample(0.1 * i, 100 * i * i, i <= 500 ? 0 : 100);
  const auto rank = of(lines, 10)[0];
  ASSERT_EQ(rank["t"].size(), 10u);
  double bytes = 0, before = 0;
  for (std::size_t p = 0; p < 10; ++p) {
    bytes += rank["network_sent_bytes_per_second"][p].get<double>() *
             (rank["t"][p].get<double>() - before);
    before = rank["t"][p].get<double>();
  }
  EXPECT_NEAR(bytes, 100.0 * 1000 * 1000, 1e4);
  EXPECT_EQ(rank["cpu_user_percent"][4], 0);
  EXPECT_EQ(rank["cpu_user_percent"][5], 100);
}

TEST_F(Samples, AFileThatWasCutIsReadAsFarAsItGoes) {
  EXPECT_EQ(of(header_ + sample(0.5, 1, 1) + R"({"t":0.6,"cpu_us)")[0]["t"].size(), 1u);
  EXPECT_TRUE(of(header_).empty());
  EXPECT_TRUE(of("").empty());
}

TEST_F(Samples, SimulatedRanksKnowTheirNetworkAlone) {
  const auto ranks = of(header_ + R"({"t":1.0,"step":1,"cpu_user_percent":null,"network":)"
                                  R"({"exchange":{"bytes_sent":5000}}})"
                                  "\n");
  EXPECT_FALSE(ranks[0].contains("cpu_percent"));
  EXPECT_THAT(ranks[0]["network_sent_bytes_per_second"], ElementsAre(5000));
}

TEST(SamplesOf, ARunWithoutAnyHaveNone) { EXPECT_TRUE(samples_of("/nowhere", 10).empty()); }

}  // namespace
}  // namespace lockstep::study
