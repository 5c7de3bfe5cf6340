// A user's program, for ranks_test: ranks_for_tests ACT [RANK]. Rank RANK (default 1) does ACT, the
// others wait for it.
#include <cstdio>
#include <stdexcept>
#include <string>

#include "collectives/barrier.h"
#include "core/error.h"
#include "lockstep/ranks.h"

int main(int argc, char** argv) {
  const std::string act = argc > 1 ? argv[1] : "", who = argc > 2 ? argv[2] : "1";
  return lockstep::run_ranks(argc, argv, 3, [&](lockstep::Rank& rank) {
    if (std::to_string(rank.rank()) == who) {
      if (act == "misuse") throw lockstep::UsageError("this rank was misused");
      if (act == "fail") throw std::runtime_error("this rank failed");
    }
    barrier(rank.peers, {});
    std::printf("rank %d of %d was told %s\n", rank.rank(), rank.size(), act.c_str());
  });
}
