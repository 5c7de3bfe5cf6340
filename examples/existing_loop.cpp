// Example 2 of 5: a plain LibTorch loop, with its own network, optimiser, gradient accumulation and
// clipping. The lines marked `ours` are what it takes to run it on several ranks.
//
//   build/release/examples/existing_loop
//
// Prints, after a second or two (figures may differ a little):
//   [0] epoch 1: loss 0.370
//   [0] epoch 2: loss 0.071
//   [0] epoch 3: loss 0.039
#include <lockstep/averager.h>  // ours
#include <lockstep/ranks.h>     // ours
#include <torch/torch.h>

namespace {

// Points in the plane, in three spiral arms: the class is the arm.
struct Spirals {
  explicit Spirals(std::int64_t samples) {
    torch::manual_seed(7);
    y = torch::arange(samples).remainder(3);
    const torch::Tensor radius = torch::rand(samples);
    const torch::Tensor angle = 4 * radius + 2.0944 * y + 0.2 * torch::randn(samples);
    x = torch::stack({radius * angle.cos(), radius * angle.sin()}, 1);
  }
  torch::Tensor x, y;
};

torch::nn::Sequential network() {
  return torch::nn::Sequential(torch::nn::Linear(2, 64), torch::nn::ReLU(),
                               torch::nn::Linear(64, 64), torch::nn::ReLU(),
                               torch::nn::Linear(64, 3));
}

constexpr int kEpochs = 3, kBatch = 20, kBatchesPerStep = 2;

void train(lockstep::Rank& rank) {  // ours: the parameter
  const Spirals data(6000);
  torch::nn::Sequential net = network();
  torch::optim::Adam optimiser(net->parameters(), 1e-2);
  lockstep::Averager averager(rank, net->parameters(),
                              lockstep::Carriage{.overlap = "wfbp"});  // ours

  for (int epoch = 1; epoch <= kEpochs; ++epoch) {
    double loss_sum = 0;
    torch::Tensor order = torch::randperm(data.y.size(0));
    order = order.chunk(rank.size())[rank.rank()];  // ours: equal shares, equally many steps
    const auto batches = order.split(kBatch);
    for (std::size_t b = 0; b < batches.size(); ++b) {
      const bool steps = (b + 1) % kBatchesPerStep == 0;
      const torch::Tensor output = net->forward(data.x.index_select(0, batches[b]));
      const torch::Tensor loss =
          torch::nn::functional::cross_entropy(output, data.y.index_select(0, batches[b]));
      if (steps) averager.last_backward();  // ours: what the next backward leaves can be sent
      (loss / kBatchesPerStep).backward();
      loss_sum += loss.item<double>();
      if (!steps) continue;
      averager.average_gradients();  // ours
      torch::nn::utils::clip_grad_norm_(net->parameters(), 1.0);
      optimiser.step();
      optimiser.zero_grad();
    }
    if (rank.rank() == 0)  // ours
      std::printf("epoch %d: loss %.3f\n", epoch, loss_sum / static_cast<double>(batches.size()));
  }
}

}  // namespace

int main(int argc, char** argv) { return lockstep::run_ranks(argc, argv, 2, train); }  // ours
