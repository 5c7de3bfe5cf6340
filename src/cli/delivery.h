// Whether a command's last words reached whoever reads its stdout.
#pragma once

#include <string>

#include "cluster/output.h"

namespace lockstep {

// Waits, as `out` does at its end, until all has been written. Returns `status`, or 1 in place of 0
// if something could not be: a result that nobody could get is no success, and `err` says why, and
// that the file `kept_in` has it.
int delivered(int status, Output& out, Output& err, const std::string& kept_in);

}  // namespace lockstep
