#include "data/open.h"

#include <gtest/gtest.h>

#include "data/files.h"

namespace lockstep {
namespace {

TEST(Content, OfDataChangesWithAnySampleOrLabelOfEitherSet) {
  const testing::Folder folder;
  testing::write_idx_set(folder.path());
  const auto content = [&] { return content_of(open_data(folder.text(), {})); };
  const std::string before = content();
  EXPECT_EQ(before.size(), 64u);
  EXPECT_EQ(content(), before);
  for (const char* name : {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                           "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}) {
    const std::string file = testing::read_file(folder / name);
    std::string changed = file;
    changed.back() = changed.back() == 1 ? 2 : 1;
    testing::write_file(folder / name, changed);
    EXPECT_NE(content(), before) << name;
    testing::write_file(folder / name, file);
  }
  EXPECT_EQ(content(), before);
}

TEST(Content, OfAModelIsThatOfItsFile) {
  const testing::Folder folder;
  const std::string model = folder / "network.pt";
  testing::write_file(model, "abc");
  EXPECT_EQ(content_of_model(model),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(content_of_model("lenet5"), "");
}

}  // namespace
}  // namespace lockstep
