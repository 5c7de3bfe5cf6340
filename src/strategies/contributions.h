// Who contributed what, with which weight, and how old it was when it was used: counted by the rank
// that holds the numbers it went into.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep {

struct Contributions {
  std::vector<std::uint64_t> staleness;  // [s]: how many that were s updates old
  std::vector<double> weight;            // by worker: its weights in all mixes, added up
  std::uint64_t count = 0;

  void add(int worker, double its_weight, std::uint64_t updates_old) {
    if (updates_old >= staleness.size()) staleness.resize(updates_old + 1);
    if (static_cast<std::size_t>(worker) >= weight.size()) weight.resize(worker + 1);
    ++staleness[updates_old];
    weight[worker] += its_weight;
    ++count;
  }
};

}  // namespace lockstep
