#include "measure/timeline.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "core/whole_file.h"
#include "folder.h"

namespace lockstep {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(StepWindow, IsARangeAllOrNone) {
  EXPECT_TRUE(step_window("3-7").has(3));
  EXPECT_TRUE(step_window("3-7").has(7));
  EXPECT_FALSE(step_window("3-7").has(8));
  EXPECT_TRUE(step_window("all").has(1u << 30));
  EXPECT_FALSE(step_window("none").has(1));
  for (const char* wrong : {"", "7", "x-3", "3-", "0-5", "7-3", "1-5x"})
    EXPECT_THAT([&] { step_window(wrong); }, ThrowsMessage<UsageError>(HasSubstr("--timeline")))
        << wrong;
}

std::string text_of(const std::vector<LaneEvent>& events) {
  const char* const names[] = {"compute", "communicate", "wait", "evaluate"};
  std::string text;
  for (const LaneEvent& e : events)
    text += fmt::format("{} {:g}-{:g} ", names[static_cast<int>(e.lane)], e.start, e.end);
  return text;
}

TEST(Lanes, WaitingComesFirst) {
  EXPECT_EQ(text_of(lanes_of({0, 3, 10, 0, 0, 4, 0})), "compute 0-3 wait 3-7 communicate 7-10 ");
}

TEST(Lanes, TheOptimiserIsComputeWhereverItIs) {
  EXPECT_EQ(text_of(lanes_of({0, 3, 10, 9, 1, 2, 0})),
            "compute 0-3 wait 3-5 communicate 5-9 compute 9-10 ");
  EXPECT_EQ(text_of(lanes_of({0, 3, 10, 3, 1, 2, 0})),
            "compute 0-3 compute 3-4 wait 4-6 communicate 6-10 ");
  // Around it, where it lies in the middle.
  EXPECT_EQ(text_of(lanes_of({0, 3, 10, 4, 1, 2, 0})),
            "compute 0-3 wait 3-4 compute 4-5 wait 5-6 communicate 6-10 ");
}

TEST(Lanes, ShowForwardAndBackward) {
  TimedStep step{0, 6, 10, 9, 1, 2, 0};
  step.backward_at = 2;
  step.backward_s = 3;  // the rest was another's
  std::string text;
  for (const LaneEvent& e : lanes_of(step))
    text += fmt::format("{} {:g}-{:g} ", e.name ? e.name : "-", e.start, e.end);
  EXPECT_EQ(text, "forward 0-2 backward 2-5 - 5-6 - 6-8 - 8-9 optimiser 9-10 ");
}

TEST(Lanes, ShowBucketsInPlaceOfTheExchange) {
  using Part = BucketSpan::Part;
  TimedStep step{0, 6, 10, 0, 0, 1, 0};
  step.spans = {{Part::encode, 0, 3, 4, 100}, {Part::exchange, 0, 4, 8, 50}};
  const auto events = lanes_of(step);
  EXPECT_EQ(text_of(events), "compute 0-6 wait 6-7 communicate 3-4 communicate 4-8 ");
  EXPECT_STREQ(events[2].name, "encode");
  EXPECT_STREQ(events[3].name, "exchange");
  EXPECT_EQ(events[3].span->bytes, 50u);
}

TEST(Lanes, AddUpToTheStep) {
  const TimedStep step{1, 2.5, 9, 8, 0.75, 2, 0};
  double sum = 0;
  for (const LaneEvent& e : lanes_of(step)) sum += e.end - e.start;
  EXPECT_DOUBLE_EQ(sum, 8);
}

class TimelineFile : public ::testing::Test {
 protected:
  json events() const { return json::parse(read_whole(path_)).at("traceEvents"); }
  std::vector<int> steps() const {
    std::vector<int> all;
    for (const json& e : events())
      if (e.at("ph") == "X") all.push_back(e.at("args").at("step"));
    return all;
  }

  const testing::Folder folder_;
  const std::string path_ = folder_ / "timeline.json";
};

TEST_F(TimelineFile, IsWholeAfterEveryWrite) {
  Timeline timeline(path_, 2, 3, 0);
  EXPECT_EQ(steps().size(), 0u);
  for (int step = 1; step <= 3; ++step) {
    timeline.add(0, step, {Lane::compute, 0.001 * step, 0.001 * step + 0.0005});
    timeline.add(2, step, {Lane::wait, 0.001 * step, 0.001 * step + 0.0005});
    timeline.flush();
    EXPECT_EQ(steps().size(), 2u * step);
  }
  const json last = events().back();
  EXPECT_EQ(last.at("name"), "wait");
  EXPECT_DOUBLE_EQ(last.at("ts").get<double>(), 3000);
  EXPECT_DOUBLE_EQ(last.at("dur").get<double>(), 500);
}

TEST_F(TimelineFile, TellsBucketAndBytesOfASpan) {
  Timeline timeline(path_, 1, 1, 0);
  const BucketSpan span{BucketSpan::Part::decode, 2, 0.001, 0.003, 400};
  timeline.add(0, 7, {Lane::communicate, span.start, span.end, "decode", &span});
  timeline.flush();
  const json last = events().back();
  EXPECT_EQ(last.at("name"), "decode");
  EXPECT_EQ(last.at("cat"), "communicate");
  EXPECT_EQ(last.at("args"), (json{{"step", 7}, {"bucket", 2}, {"bytes", 400}}));
}

TEST_F(TimelineFile, NamesEachRankAndKeepsLanesApart) {
  const Timeline timeline(path_, 2, 3, 0);
  std::vector<std::string> ranks;
  std::set<std::pair<int, int>> lanes;
  std::set<int> threads;
  for (const json& e : events()) {
    if (e.at("name") == "process_name") ranks.push_back(e.at("args").at("name"));
    if (e.at("name") == "thread_name")
      lanes.emplace(e.at("pid").get<int>(), e.at("tid").get<int>());
    threads.insert(e.at("tid").get<int>());
  }
  EXPECT_THAT(ranks,
              ::testing::ElementsAre("rank 0 (worker)", "rank 1 (worker)", "rank 2 (server)"));
  EXPECT_EQ(lanes.size(), 12u);
  EXPECT_EQ(threads.size(), 12u);
}

TEST_F(TimelineFile, AResumedOneForgetsWhatIsDoneAgain) {
  {
    Timeline timeline(path_, 1, 1, 0);
    for (int step = 1; step <= 5; ++step) timeline.add(0, step, {Lane::compute, 1.0 * step, 9});
    timeline.flush();
  }
  Timeline again(path_, 1, 1, 3);
  EXPECT_EQ(steps(), (std::vector<int>{1, 2, 3}));
  again.add(0, 4, {Lane::compute, 4, 5});
  again.flush();
  EXPECT_EQ(steps(), (std::vector<int>{1, 2, 3, 4}));
}

TEST_F(TimelineFile, ADamagedOneIsBegunAnew) {
  write_whole(path_, std::string("{\"traceEvents\":[{\"na"));
  const Timeline timeline(path_, 1, 1, 3);
  EXPECT_EQ(events().size(), 10u);
}

}  // namespace
}  // namespace lockstep
