#include "train/network_cut.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "core/error.h"

namespace lockstep {

NetworkCut::NetworkCut(Network& network, const BlockCounts& counts, const torch::Tensor& sample)
    : blocks_(network.blocks()), into_(counts.size()), out_(counts.size()) {
  if (blocks_.empty())
    throw UsageError("the network can't be cut into stages: it is not a list of blocks");
  if (std::accumulate(counts.begin(), counts.end(), 0) != std::ssize(blocks_) ||
      std::ranges::any_of(counts, [](int count) { return count < 1; }))
    throw UsageError(fmt::format("a cut into stages of {} blocks: the network has {}",
                                 in_words(counts), blocks_.size()));
  for (std::size_t begin = 0; const int count : counts) {
    stages_.push_back({begin, static_cast<std::size_t>(count)});
    begin = stages_.back().end();
  }
  find_links();
  find_shapes(network, sample);
}

void NetworkCut::find_links() {
  for (int stage = 1; stage < stages(); ++stage) links_.push_back({stage - 1, stage, "", {}});
  std::map<std::string, int> given;  // by name: the stage that gives it
  for (int stage = 0; stage < stages(); ++stage)
    for (const Block& block : blocks_of(std::span(&stage, 1))) {
      for (const std::string& name : block.takes) {
        const auto from = given.find(name);
        if (from == given.end())
          throw UsageError(fmt::format("block '{}' takes '{}', which no block before it gives",
                                       block.name, name));
        if (from->second < stage) links_.push_back({from->second, stage, name, {}});
      }
      for (const std::string& name : block.gives) given[name] = stage;
    }
  const auto place = [](const TensorLink& link) { return std::tie(link.from, link.to, link.name); };
  std::ranges::sort(links_, {}, place);
  // Two blocks of one stage that take the same tensor share its link.
  links_.erase(std::ranges::unique(links_, {}, place).begin(), links_.end());
  for (int i = 0; i < static_cast<int>(links_.size()); ++i) {
    into_[links_[i].to].push_back(i);
    out_[links_[i].from].push_back(i);
  }
}

void NetworkCut::find_shapes(Network& network, const torch::Tensor& sample) {
  const torch::NoGradGuard no_grad;
  network.train(false);
  std::map<int, torch::Tensor> passing;  // by link
  for (int stage = 0; stage < stages(); ++stage) {
    Tensors taken;
    if (stage == 0) taken.push_back(sample);
    for (const int link : into(stage)) taken.push_back(passing.extract(link).mapped());
    const Tensors given = run_of(stage).forward(taken);
    for (std::size_t i = 0; i < out_of(stage).size(); ++i) {
      const int link = out_of(stage)[i];
      if (given[i].scalar_type() != torch::kFloat)
        throw UsageError(
            fmt::format("stage {} hands on numbers of type {}: only fp32 passes between stages",
                        stage, c10::toString(given[i].scalar_type())));
      links_[link].shape = given[i].sizes().slice(1).vec();
      passing[link] = given[i];
    }
  }
}

BlockRun NetworkCut::run_of(int stage) const {
  std::vector<std::string> takes, gives;
  if (stage == 0) takes.emplace_back();
  for (const int link : into(stage)) takes.push_back(links_[link].name);
  for (const int link : out_of(stage)) gives.push_back(links_[link].name);
  if (stage == stages() - 1) gives.emplace_back();
  return {blocks_of(std::span(&stage, 1)), std::move(takes), std::move(gives)};
}

std::vector<Block> NetworkCut::blocks_of(std::span<const int> stages) const {
  std::vector<Block> found;
  for (const int stage : stages) {
    const auto first = blocks_.begin() + static_cast<std::ptrdiff_t>(stages_.at(stage).begin);
    found.insert(found.end(), first, first + static_cast<std::ptrdiff_t>(stages_[stage].count));
  }
  return found;
}

}  // namespace lockstep
