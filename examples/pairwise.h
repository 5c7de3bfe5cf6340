// A strategy of one's own, for examples 3 and 4: every worker steps with its own gradient, then
// takes the mean of its weights and those of one neighbour on a ring, of the left and of the right
// one in turn. Nobody waits for more than one other, and news travels a neighbour a step.
#pragma once

#include <lockstep/lockstep.h>

class Pairwise final : public lockstep::Strategy, public lockstep::Statement {
 public:
  explicit Pairwise(const lockstep::Crew& crew) : Strategy(crew, {.statement = this}) {
    if (crew.workers % 2 != 0)
      throw lockstep::UsageError("pairwise needs an even number of workers: somebody is left over");
  }

  // The whole rule. Kernels and messages pass over hollow values, so it runs in every world.
  void update(lockstep::Replica& replica, const lockstep::Step& step) override {
    replica.apply_gradients(step.number);

    lockstep::Transport& peers = crew_.rank.peers;
    const lockstep::Values mine = replica.weights();
    const lockstep::Scratch theirs(mine, mine.count());
    const int neighbour = neighbour_of(peers.rank(), step);
    const lockstep::Tag tag = lockstep::own_channel(lockstep::Purpose::weights);
    lockstep::Pending sent = peers.send(neighbour, tag, mine.bytes());
    lockstep::Pending come = peers.recv(neighbour, tag, theirs.values().bytes());
    peers.wait(come);
    peers.wait(sent);
    combine(mine, theirs.values().bytes());
    scale(mine, 0.5);
  }

  // What it claims to do, for the audit to check: own gradient, mean of two workers' weights.
  std::vector<lockstep::Flow> flows(const lockstep::Step& step, int rank,
                                    std::size_t count) const override {
    std::vector<double> own(crew_.workers), mean(crew_.workers);
    own[rank] = 1;
    mean[rank] = mean[neighbour_of(rank, step)] = 0.5;
    return {{{0, count}, own, mean}};
  }
  // And what it claims to send.
  std::uint64_t bytes_sent(const lockstep::Step&, int, std::size_t count) const override {
    return count * sizeof(float);
  }

 private:
  int neighbour_of(int rank, const lockstep::Step& step) const {
    const bool right = (static_cast<std::uint64_t>(rank) + step.number) % 2 == 0;
    return (rank + (right ? 1 : crew_.workers - 1)) % crew_.workers;
  }
};

// What the trainer must know before it makes one; all else is as it usually is.
inline const lockstep::StrategyRow kPairwise{
    .name = "pairwise", .maker = [](const lockstep::Options&) -> lockstep::StrategyMaker {
      return {[](const lockstep::Crew& crew) { return std::make_unique<Pairwise>(crew); }};
    }};
