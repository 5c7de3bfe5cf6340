// Where to cut a network into stages. The network is a list of blocks, known by their costs, with
// skip connections from blocks to later ones; a stage is a run of blocks side by side. Pure
// arithmetic: who measures the blocks is no matter here.
//
// The cut that is best by time or by memory is found exactly, by dynamic programming over (stages,
// blocks): O(K n^2) for n blocks. Of several that are as good it is the one with the fewest bytes
// between stages.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/slices.h"
#include "parallel/forecast.h"
#include "parallel/stash.h"

namespace lockstep {

// Times and bytes are those of one micro-batch.
struct NetworkBlock {
  std::string name;
  PassTimes times;
  std::uint64_t parameter_bytes = 0;
  std::uint64_t activation_bytes = 0;  // what stays for its backward: its output, but not its input
  std::uint64_t output_bytes = 0;      // what the next block needs of it
};

// A tensor that block `from` makes and block `to` needs, beside what each block has from the one
// before. It goes straight from stage to stage, once; its gradient comes back.
struct NetworkSkip {
  std::string name;
  int from = 0, to = 0;
  std::uint64_t bytes = 0;
};

struct NetworkCosts {
  std::vector<NetworkBlock> blocks;
  std::vector<NetworkSkip> skips;
  std::uint64_t input_bytes = 0;  // what the first block reads
};

struct CutTerms {
  double seconds_per_byte = 0, latency_s = 0;  // of a message between two workers
  // Bytes that are held for each byte of parameters: themselves, gradients, the optimiser's state.
  double bytes_per_parameter_byte = 2;
};
std::uint64_t parameter_memory_bytes(std::uint64_t parameter_bytes, const CutTerms&);

// A stage of blocks [begin, end).
struct StageCosts {
  Slice blocks;
  PassTimes times;
  std::uint64_t parameter_bytes = 0;
  StashBytes stash;                           // of one micro-batch
  std::uint64_t bytes_in = 0, bytes_out = 0;  // from and to other stages, skips included
  std::uint64_t skip_bytes_in = 0, skip_bytes_out = 0;
  // Its passes, and the messages that it sends: its output, and the gradients of its inputs.
  double step_s = 0;
  std::uint64_t memory_bytes = 0;  // parameters and all that goes with them, and its stash
};

enum class Balance { time, memory };

// The number of blocks of each stage: {3, 4, 5}.
using BlockCounts = std::vector<int>;
// "3,4,5"
std::string in_words(const BlockCounts&);

class Partitioner {
 public:
  // UsageError: fewer blocks than stages, or a skip that does not go from a block to a later one.
  // `stashes`: what each stage keeps of how many micro-batches, see stash.h.
  Partitioner(NetworkCosts, CutTerms, std::vector<Stash> stashes);

  // REQUIRES: 0 <= stage < stages, begin < end <= blocks.
  StageCosts stage(int stage, int begin, int end) const;
  // All stages of a cut. REQUIRES: a count of at least 1 a stage, and all blocks.
  std::vector<StageCosts> stages(const BlockCounts&) const;
  // What passes between the stages of a cut: one link from each stage to the next, and one for each
  // skip that leaves its stage.
  std::vector<StageLink> links(const BlockCounts&) const;

  // The cut whose slowest (largest) stage is the fastest (smallest) among those in which no stage
  // needs more than `most_bytes`. None: there is no such cut.
  std::optional<BlockCounts> best(Balance, std::optional<std::uint64_t> most_bytes = {}) const;
  // How many cuts there are in which no stage needs more than `most_bytes`.
  double count(std::optional<std::uint64_t> most_bytes = {}) const;
  // A cut by hand: "3,4,5". UsageError if it is none of this network into so many stages.
  BlockCounts read(std::string_view text) const;

 private:
  NetworkCosts network_;
  CutTerms terms_;
  std::vector<Stash> stashes_;
  int stages_, blocks_;
  std::vector<PassTimes> times_;  // of all blocks before this one, by block; and so on
  std::vector<std::uint64_t> parameter_bytes_, activation_bytes_;
};

}  // namespace lockstep
