#include "replica/torch_error.h"

#include <gmock/gmock.h>
#include <torch/script.h>

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

template <class Act>
std::string said_of(const Act& act) {
  try {
    act();
  } catch (const std::exception& e) {
    return sentence_of(e);
  }
  return "nothing";
}

TEST(TorchError, IsOneLineWithoutAStack) {
  const auto multiply = [] { torch::ones({2, 3}).mm(torch::ones({2, 3})); };
  EXPECT_THAT(said_of(multiply), AllOf(StartsWith("mat1 and mat2 shapes"), Not(HasSubstr("\n"))));
}

TEST(TorchError, OfAScriptIsWhatFailedInIt) {
  torch::jit::Module module("Net");
  module.define("def forward(self, x):\n  return x.mm(x)\n");
  const auto run = [&] { module.forward({torch::ones({2, 3})}); };
  EXPECT_THAT(said_of(run), AllOf(HasSubstr("mat1 and mat2 shapes"), Not(HasSubstr("\n"))));
}

TEST(TorchError, OfOthersIsTheirFirstLine) {
  EXPECT_EQ(said_of([] { throw std::runtime_error("one\ntwo"); }), "one");
  EXPECT_EQ(said_of([] { throw std::bad_alloc(); }), "std::bad_alloc");
}

}  // namespace
}  // namespace lockstep
