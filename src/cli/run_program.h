// Another program, run to its end.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

// Its output is kept to tell why it failed. UsageError if it can't be started; InternalError, with
// what it said first, if it fails or takes longer than `seconds`; bench::Interrupted once
// `interrupt` (or -1) is readable. In every case nothing of it runs any more afterwards.
void run_program(const std::vector<std::string>& words, double seconds, int interrupt);

}  // namespace lockstep
