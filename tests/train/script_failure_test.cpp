// A script that fails while it trains: what LibTorch says of it is one sentence.
#include <gmock/gmock.h>
#include <torch/script.h>

#include "train/runs.h"

namespace lockstep::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

// Takes one sample, which is what it is tried with, and no two.
std::string network_in(const TestFolder& folder) {
  std::filesystem::create_directories(folder.path());
  torch::jit::Module module("Net");
  module.register_parameter("out", torch::zeros({784, 10}).set_requires_grad(true), false);
  module.define(R"(
    def forward(self, x):
      return x.reshape(-1, 784).mm(self.out) + torch.zeros(1, 10).mm(torch.zeros(9 + x.size(0), 10))
  )");
  const std::string path = folder.path() + "/net.pt";
  module.save(path);
  return path;
}

TEST(ScriptFailure, IsOneSentenceWithoutLibTorchsStack) {
  const TestFolder folder;
  TrainConfig config = small_config();
  config.model = network_in(folder);
  config.workers = 1;
  EXPECT_THAT([&] { train_in("loopback", config); },
              ThrowsMessage<InternalError>(AllOf(HasSubstr("mat1 and mat2 shapes"),
                                                 Not(HasSubstr("\n")), Not(HasSubstr("frame #")))));
}

}  // namespace
}  // namespace lockstep::testing
