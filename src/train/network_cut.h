// A network cut into stages: which blocks each has, and which tensors pass between them.
#pragma once

#include "parallel/partition.h"
#include "replica/block_run.h"

namespace lockstep {

// A tensor that a stage hands on to a later one for every micro-batch. It goes straight there, and
// its gradient comes back.
struct TensorLink {
  int from = 0, to = 0;             // stages
  std::string name;                 // "": the main path
  std::vector<std::int64_t> shape;  // of one sample
};

class NetworkCut {
 public:
  // `sample`: a batch of one, by which the shapes are found. The network goes into use for that;
  // it draws no random numbers and its statistics stay. UsageError if the network has no blocks, or
  // not as many as the counts say.
  NetworkCut(Network&, const BlockCounts&, const torch::Tensor& sample);

  int stages() const { return static_cast<int>(stages_.size()); }
  Slice blocks_of(int stage) const { return stages_.at(stage); }
  BlockRun run_of(int stage) const;
  // The blocks of several stages, in their order.
  std::vector<Block> blocks_of(std::span<const int> stages) const;

  // By (from, to, name): the main path comes first. All workers number them alike.
  std::span<const TensorLink> links() const { return links_; }
  // Their numbers, in order: those that end at a stage, and those that begin there.
  const std::vector<int>& into(int stage) const { return into_.at(stage); }
  const std::vector<int>& out_of(int stage) const { return out_.at(stage); }

 private:
  void find_links();
  void find_shapes(Network&, const torch::Tensor& sample);

  std::vector<Block> blocks_;
  std::vector<Slice> stages_;
  std::vector<TensorLink> links_;
  std::vector<std::vector<int>> into_, out_;
};

}  // namespace lockstep
