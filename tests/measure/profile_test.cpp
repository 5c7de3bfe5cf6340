#include "measure/profile.h"

#include <gmock/gmock.h>

#include "core/error.h"
#include "core/whole_file.h"
#include "folder.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Profiler, TakesMediansOfStepsAndParts) {
  Profiler profiler;
  for (const double s : {1.0, 9.0, 2.0}) {
    const SliceTime parts[] = {{{0, 10}, 3 * s}, {{10, 5}, s}};
    profiler.add(s, 2 * s, s / 2, parts);
  }
  const Profile profile = profiler.medians();
  EXPECT_EQ(profile.forward_s, 2);
  EXPECT_EQ(profile.backward_s, 4);
  EXPECT_EQ(profile.apply_s, 1);
  ASSERT_EQ(profile.ready.size(), 2u);
  EXPECT_EQ(profile.ready[0].part, (Slice{10, 5})) << "in the order of time";
  EXPECT_EQ(profile.ready[0].ready_s, 2);
  EXPECT_EQ(profile.ready[1].ready_s, 6);
}

TEST(Profile, IsReadAsItWasWritten) {
  const Folder folder;
  const std::string path = folder / "profile.json";
  const Profile profile{"mlp", 64, 1, 0.1, 0.2, 0.05, {{{10, 5}, 0.125}, {{0, 10}, 0.2}}};
  write_whole(path, to_json(profile).dump());
  const Profile read = read_profile(path);
  EXPECT_EQ(read.step_s(), profile.step_s());
  ASSERT_EQ(read.ready.size(), 2u);
  EXPECT_EQ(read.ready[0].part, (Slice{10, 5}));
  EXPECT_EQ(read.ready[0].ready_s, 0.125);
}

TEST(Profile, KeepsTheRatesOfCompressors) {
  const Folder folder;
  const std::string path = folder / "profile.json";
  Profile profile{"mlp", 64, 1, 0.1, 0.2, 0.05};
  profile.coding = {{"fp16", 2, 1e-9, 3e-9}};
  write_whole(path, to_json(profile).dump());
  Profile next{"mlp", 64, 1, 0.1, 0.2, 0.05};
  next.coding = {{"topk", 3, 5e-9, 0}};
  add_rates(next, read_profile(path).coding);
  add_rates(next, {{"topk", 9, 9, 9}});  // what was measured last counts
  ASSERT_EQ(next.coding.size(), 2u);
  EXPECT_EQ(next.coding[0].workers, 3);
  EXPECT_EQ(next.coding[1].compressor, "fp16");
  EXPECT_EQ(next.coding[1].encode_s_per_number, 1e-9);
  EXPECT_EQ(next.coding[1].decode_s_per_number, 3e-9);
}

TEST(Profile, MayKnowNothingOfParts) {
  const Folder folder;
  const std::string path = folder / "profile.json";
  auto json = to_json(Profile{"mlp", 64, 1, 0.1, 0.2, 0.05});
  json.erase("ready");
  write_whole(path, json.dump());
  EXPECT_TRUE(read_profile(path).ready.empty());
}

TEST(Profile, RefusesWhatIsNone) {
  const Folder folder;
  const std::string path = folder / "profile.json";
  auto json = to_json(Profile{"mlp", 64, 1, 0.1, 0.2, 0.05});
  json["ready"] = {{0, 10, -1.0}};
  write_whole(path, json.dump());
  EXPECT_THAT([&] { read_profile(path); }, ThrowsMessage<UsageError>(HasSubstr("not positive")));
  json["ready"] = {{0, "many", 1.0}};
  write_whole(path, json.dump());
  EXPECT_THAT([&] { read_profile(path); }, ThrowsMessage<UsageError>(HasSubstr("--profile-out")));
}

}  // namespace
}  // namespace lockstep::testing
