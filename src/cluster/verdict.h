// How a job ended: one status and one sentence, from how its processes ended and from the
// coordinator's book, which knows who only followed.
#pragma once

#include <string>
#include <vector>

#include "cluster/members.h"

namespace lockstep {

// Of one rank's process.
struct ProcessEnd {
  std::string name;  // "rank 2 (pid 123 on host h)"
  int wait_status = 0;
  bool stopped_by_us = false;  // which is nobody's reason for anything
};

struct Verdict {
  int status = 0;
  std::string sentence;  // empty: all went well
};

// Has a rank failed, so that the others must end? `goes_on`: they need not because of a death
// alone.
bool has_failed(const Members&, bool goes_on);

// `told_to_stop`: the signal, or 0.
Verdict judge(const std::vector<ProcessEnd>& by_rank, const Members&, bool goes_on,
              int told_to_stop);

}  // namespace lockstep
