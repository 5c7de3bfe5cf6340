// Windows of a text file, each character labelled with the next.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "data/files.h"
#include "data/open.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class TextTest : public ::testing::Test {
 protected:
  Data open(const std::string& text, const std::string& keys) {
    testing::write_file(path_, text);
    return open_data("text:" + path_ + "," + keys, {});
  }
  testing::Folder folder_;
  const std::string path_ = folder_ / "text";
};

TEST_F(TextTest, EndsWithTheTestSetAndHasTheFilesOwnVocabulary) {
  const Data data = open("bananas, bananas!", "context=3,test=0.3");  // 17 characters: 12 and 5
  EXPECT_EQ(data.train->classes(), 7) << "space ! , a b n s";
  EXPECT_EQ(data.test->classes(), 7);
  EXPECT_TRUE(data.train->tokens());
  EXPECT_EQ(data.train->size(), 3u) << "the last character has none after it";
  EXPECT_EQ(data.test->size(), 1u);
  std::vector<float> x(9);
  std::vector<std::int64_t> y(9);
  const std::vector<std::uint32_t> all{2, 0, 1};
  data.train->read(all, 0, x.data());
  data.train->read_labels(all, 0, y.data());
  EXPECT_THAT(x, ElementsAre(6, 2, 0, 4, 3, 5, 3, 5, 3)) << "s,_ ban ana";
  EXPECT_THAT(y, ElementsAre(2, 0, 4, 3, 5, 3, 5, 3, 6));
}

TEST_F(TextTest, ContentIsThatOfTheFile) {
  const auto content = [&](const std::string& text) {
    return content_of(open(text, "context=4,test=0.3"));
  };
  const std::string before = content("bananas, bananas,");
  EXPECT_EQ(content("bananas, bananas,"), before);
  EXPECT_NE(content("bananas, bananas "), before) << "the last character is a label alone";
}

TEST_F(TextTest, TooShortOnesAreRefused) {
  EXPECT_THAT([&] { open("bananas, bananas!", "context=5,test=0.3"); },
              ThrowsMessage<UsageError>(HasSubstr("too few for a context of 5")));
  EXPECT_THAT([&] { open_data("text:" + folder_.text() + "/none", {}); },
              ::testing::Throws<UsageError>());
  EXPECT_THAT([] { open_data("text", {}); }, ThrowsMessage<UsageError>(HasSubstr("say text:FILE")));
}

}  // namespace
}  // namespace lockstep
